// Summary statistics of joint samples: of each target, and of quantities that need joint samples.
#ifndef CHORALE_CLIENT_CPP_SAMPLE_SUMMARY_H_
#define CHORALE_CLIENT_CPP_SAMPLE_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

// Statistics of B draws of one quantity. Quantiles interpolate linearly between draws.
struct DrawSummary {
  double mean = 0.0;
  double sd = 0.0;  // denominator B - 1; NaN if B = 1
  double q05 = 0.0, q25 = 0.0, q50 = 0.0, q75 = 0.0, q95 = 0.0;
};

// How many known values lie in the central intervals of their rows, ends included.
struct IntervalCoverage {
  int64_t inside = 0;  // known values
  double mean_width = 0.0;
  // 90 % of the paths have this many of their own values in the same rows' intervals, and so would
  // known values if the model were right.
  int64_t fewest_expected = 0;
  int64_t most_expected = 0;
};

// Samples compared with known values.
struct Coverage {
  int64_t known = 0;               // number of known values; all else is 0 if there are none
  IntervalCoverage half;           // q25 to q75
  IntervalCoverage ninety;         // q05 to q95
  double mean_median_error = 0.0;  // mean of |q50 - value|
  double known_sd = 0.0;           // of the known values, denominator n - 1; NaN if n = 1
};

struct SampleStatistics {
  std::vector<DrawSummary> targets;  // [T]
  DrawSummary sum;                   // over the T targets of a path
  DrawSummary mean;
  DrawSummary max;
  DrawSummary min;
  // The standard deviation that the sum would have if the targets were independent.
  double independent_sum_sd = 0.0;
  // Mean of the T (T - 1) / 2 correlations between two targets. Targets that do not vary are left
  // out; nullopt if B = 1 or if fewer than two targets vary.
  std::optional<double> mean_pairwise_correlation;
};

// Requires draws.size() > 0.
DrawSummary SummarizeDraws(std::vector<double> draws);

SampleStatistics Summarize(const Samples& samples);

// `statistics` must be those of `samples`. `known` [T] has NaN for unknown values, or is empty.
Coverage CountCovered(const Samples& samples, const SampleStatistics& statistics,
                      absl::Span<const double> known);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_SAMPLE_SUMMARY_H_
