// What joint samples say, in a few numbers: each target by itself, and what only a joint sample
// can tell.
#ifndef CHORALE_CLIENT_SAMPLE_SUMMARY_H_
#define CHORALE_CLIENT_SAMPLE_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "client/sample_assembly.h"

namespace chorale::client {

// Of B draws of one quantity. Quantiles are those of the draws, linear between neighbours.
struct DrawSummary {
  double mean = 0.0;
  double sd = 0.0;  // with B - 1; NaN when B = 1
  double q05 = 0.0, q25 = 0.0, q50 = 0.0, q75 = 0.0, q95 = 0.0;
};

// Known values found inside the central intervals of their rows' draws.
struct Coverage {
  int64_t known = 0;
  int64_t in_50 = 0;  // q25 <= value <= q75
  int64_t in_90 = 0;  // q05 <= value <= q95
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

// `known` [T]: NaN where a row's value is not known. Requires known.size() == targets.size().
Coverage CountCovered(const SampleStatistics& statistics, absl::Span<const double> known);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_SAMPLE_SUMMARY_H_
