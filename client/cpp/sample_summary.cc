#include "client/cpp/sample_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace chorale::client {
namespace {

// The quantile of sorted draws, interpolated linearly at index p (B - 1).
double Quantile(const std::vector<double>& sorted, double p) {
  const double index = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(index);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], index - static_cast<double>(below));
}

// Summarises one number per path, which `of` computes from the path's T values.
template <class Function>
DrawSummary SummarizePaths(const Samples& samples, Function of) {
  std::vector<double> draws(samples.path_count);
  for (int64_t path = 0; path < samples.path_count; ++path) {
    draws[path] = of(absl::Span<const double>(samples.values.data() + path * samples.row_count,
                                              samples.row_count));
  }
  return SummarizeDraws(std::move(draws));
}

// With z the standardised values of a path, Var(sum of z) = T + 2 * (sum of all correlations).
std::optional<double> MeanCorrelation(const Samples& samples,
                                      const std::vector<DrawSummary>& rows) {
  std::vector<int64_t> varying;
  for (int64_t t = 0; t < samples.row_count; ++t) {
    if (rows[t].sd > 0.0) varying.push_back(t);
  }
  if (varying.size() < 2) return std::nullopt;
  const DrawSummary z_sum = SummarizePaths(samples, [&](absl::Span<const double> values) {
    double sum = 0.0;
    for (const int64_t t : varying) sum += (values[t] - rows[t].mean) / rows[t].sd;
    return sum;
  });
  const auto count = static_cast<double>(varying.size());
  return (z_sum.sd * z_sum.sd - count) / (count * (count - 1.0));
}

// The coverage of `rows` by the intervals from `low` to `high`. `known` [T].
IntervalCoverage Cover(const Samples& samples, const SampleStatistics& statistics,
                       const std::vector<int64_t>& rows, absl::Span<const double> known,
                       double DrawSummary::*low, double DrawSummary::*high) {
  const auto count_inside = [&](absl::Span<const double> values) {
    return std::count_if(rows.begin(), rows.end(), [&](int64_t t) {
      const DrawSummary& draws = statistics.rows[t];
      return draws.*low <= values[t] && values[t] <= draws.*high;
    });
  };
  IntervalCoverage coverage;
  coverage.inside = count_inside(known);
  for (const int64_t t : rows) {
    coverage.mean_width += statistics.rows[t].*high - statistics.rows[t].*low;
  }
  coverage.mean_width /= static_cast<double>(rows.size());
  const DrawSummary on_paths =
      SummarizePaths(samples, [&](absl::Span<const double> values) -> double {
        return static_cast<double>(count_inside(values));
      });
  coverage.fewest_expected = static_cast<int64_t>(std::floor(on_paths.q05));
  coverage.most_expected = static_cast<int64_t>(std::ceil(on_paths.q95));
  return coverage;
}

}  // namespace

DrawSummary SummarizeDraws(std::vector<double> draws) {
  std::sort(draws.begin(), draws.end());
  const auto count = static_cast<double>(draws.size());
  DrawSummary summary;
  summary.mean = std::accumulate(draws.begin(), draws.end(), 0.0) / count;
  double squares = 0.0;
  for (const double x : draws) squares += (x - summary.mean) * (x - summary.mean);
  summary.sd = draws.size() > 1 ? std::sqrt(squares / (count - 1.0))
                                : std::numeric_limits<double>::quiet_NaN();
  summary.q05 = Quantile(draws, 0.05);
  summary.q25 = Quantile(draws, 0.25);
  summary.q50 = Quantile(draws, 0.50);
  summary.q75 = Quantile(draws, 0.75);
  summary.q95 = Quantile(draws, 0.95);
  return summary;
}

SampleStatistics Summarize(const Samples& samples) {
  SampleStatistics statistics;
  double variance_sum = 0.0;
  for (int64_t t = 0; t < samples.row_count; ++t) {
    statistics.rows.push_back(
        SummarizePaths(samples, [t](absl::Span<const double> values) { return values[t]; }));
    variance_sum += statistics.rows.back().sd * statistics.rows.back().sd;
  }
  const auto sum = [](absl::Span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  const auto count = static_cast<double>(samples.row_count);
  statistics.sum = SummarizePaths(samples, sum);
  statistics.mean =
      SummarizePaths(samples, [&](absl::Span<const double> values) { return sum(values) / count; });
  statistics.max = SummarizePaths(samples, [](absl::Span<const double> values) {
    return *std::max_element(values.begin(), values.end());
  });
  statistics.min = SummarizePaths(samples, [](absl::Span<const double> values) {
    return *std::min_element(values.begin(), values.end());
  });
  statistics.independent_sum_sd = std::sqrt(variance_sum);
  statistics.mean_pairwise_correlation = MeanCorrelation(samples, statistics.rows);
  return statistics;
}

Coverage CountCovered(const Samples& samples, const SampleStatistics& statistics,
                      absl::Span<const double> known) {
  std::vector<int64_t> rows;
  std::vector<double> values;
  Coverage coverage;
  for (size_t t = 0; t < known.size(); ++t) {
    if (std::isnan(known[t])) continue;
    rows.push_back(static_cast<int64_t>(t));
    values.push_back(known[t]);
    coverage.mean_median_error += std::abs(statistics.rows[t].q50 - known[t]);
  }
  if (rows.empty()) return coverage;
  coverage.known = static_cast<int64_t>(rows.size());
  coverage.mean_median_error /= static_cast<double>(rows.size());
  coverage.half = Cover(samples, statistics, rows, known, &DrawSummary::q25, &DrawSummary::q75);
  coverage.ninety = Cover(samples, statistics, rows, known, &DrawSummary::q05, &DrawSummary::q95);
  coverage.known_sd = SummarizeDraws(std::move(values)).sd;
  return coverage;
}

}  // namespace chorale::client
