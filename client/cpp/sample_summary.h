// What joint samples say, in a few numbers: each target by itself, and what only a joint sample
// can tell.
#ifndef CHORALE_CLIENT_CPP_SAMPLE_SUMMARY_H_
#define CHORALE_CLIENT_CPP_SAMPLE_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

// Of B draws of one quantity. Quantiles are those of the draws, linear between neighbours.
struct DrawSummary {
  double mean = 0.0;
  double sd = 0.0;  // with B - 1; NaN when B = 1
  double q05 = 0.0, q25 = 0.0, q50 = 0.0, q75 = 0.0, q95 = 0.0;
};

// The central intervals of the rows whose value is known, and what lies inside, ends included.
struct IntervalCoverage {
  int64_t inside = 0;  // known values
  double mean_width = 0.0;
  // Nine paths of ten have that many of their own values inside, for the same rows: so would known
  // values that are as the model takes them to be.
  int64_t fewest_expected = 0;
  int64_t most_expected = 0;
};

// Samples against the values that are known.
struct Coverage {
  int64_t known = 0;               // values; all else is 0 when there are none
  IntervalCoverage half;           // q25 to q75
  IntervalCoverage ninety;         // q05 to q95
  double mean_median_error = 0.0;  // mean of |q50 - value|
  double known_sd = 0.0;           // of the known values, with n - 1; NaN when there is one
};

struct SampleStatistics {
  std::vector<DrawSummary> targets;  // [T]
  DrawSummary sum;                   // over the T targets of a path
  DrawSummary mean;
  DrawSummary max;
  DrawSummary min;
  // The standard deviation that the sum would have, were the targets independent.
  double independent_sum_sd = 0.0;
  // Mean of the T (T - 1) / 2 correlations between two targets; nullopt when B = 1, or when fewer
  // than two targets vary (those that do not are left out).
  std::optional<double> mean_pairwise_correlation;
};

// Requires draws.size() > 0.
DrawSummary SummarizeDraws(std::vector<double> draws);

SampleStatistics Summarize(const Samples& samples);

// `statistics` are those of `samples`. `known` [T], NaN where a row's value is not known; or empty.
Coverage CountCovered(const Samples& samples, const SampleStatistics& statistics,
                      absl::Span<const double> known);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_SAMPLE_SUMMARY_H_
