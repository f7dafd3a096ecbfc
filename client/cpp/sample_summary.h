// Summary statistics of joint samples: of each query row, and of quantities that require joint
// samples.
#ifndef CHORALE_CLIENT_CPP_SAMPLE_SUMMARY_H_
#define CHORALE_CLIENT_CPP_SAMPLE_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

// Statistics of B draws of a quantity. Quantiles interpolate linearly between draws.
struct DrawSummary {
  double mean = 0.0;
  double sd = 0.0;  // denominator B - 1; NaN if B = 1
  double q05 = 0.0, q25 = 0.0, q50 = 0.0, q75 = 0.0, q95 = 0.0;
};

// The coverage of observed values by the central intervals of their rows, bounds included.
struct IntervalCoverage {
  int64_t inside = 0;  // the number of observed values in their intervals
  double mean_width = 0.0;
  // The expected range of `inside` for a calibrated model: 90 % of the paths have a number of
  // values in this range in the intervals of the same rows.
  int64_t fewest_expected = 0;
  int64_t most_expected = 0;
};

// A comparison of samples with observed values.
struct Coverage {
  int64_t known = 0;               // the number of observed values; if 0, all other members are 0
  IntervalCoverage half;           // q25 to q75
  IntervalCoverage ninety;         // q05 to q95
  double mean_median_error = 0.0;  // mean of |q50 - value|
  double known_sd = 0.0;           // of the observed values, denominator n - 1; NaN if n = 1
};

struct SampleStatistics {
  std::vector<DrawSummary> rows;  // [T]: of each query row
  DrawSummary sum;                // over the T query rows of a path
  DrawSummary mean;
  DrawSummary max;
  DrawSummary min;
  // The standard deviation that the sum would have if the query rows were independent.
  double independent_sum_sd = 0.0;
  // The mean of the T (T - 1) / 2 correlations between two query rows. Excludes rows that do not
  // vary; nullopt if B = 1 or if fewer than two rows vary.
  std::optional<double> mean_pairwise_correlation;
};

// Requires draws.size() > 0.
DrawSummary SummarizeDraws(std::vector<double> draws);

SampleStatistics Summarize(const Samples& samples);

// Requires that `statistics` belong to `samples`. `known` [T] has NaN for unknown values, or is
// empty.
Coverage CountCovered(const Samples& samples, const SampleStatistics& statistics,
                      absl::Span<const double> known);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_SAMPLE_SUMMARY_H_
