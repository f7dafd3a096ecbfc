#include "engine/session/path_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/ops/step_draw.h"

namespace chorale {
namespace {

double MeanOf(absl::Span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double QuantileOf(const std::vector<double>& ascending, double q) {
  const double position = q * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] +
         (position - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

// The distance of a value beyond the threshold from it; 0 or less for other values.
double Excess(const Functional& functional, double value) {
  return functional.below ? functional.threshold - value : value - functional.threshold;
}

double LongestRun(const Functional& functional, absl::Span<const double> values) {
  int64_t longest = 0;
  int64_t run = 0;
  for (const double value : values) {
    run = Excess(functional, value) > 0 ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return static_cast<double>(longest);
}

// Divides 1 among the rows that have the value `extreme`.
void ShareAmongRowsOf(double extreme, absl::Span<const double> values, absl::Span<double> out) {
  const auto rows = std::count(values.begin(), values.end(), extreme);
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = values[i] == extreme ? 1.0 / static_cast<double>(rows) : 0.0;
  }
}

// The rank of each value, from 1 for the largest; equal values have their mean rank.
void RankValues(absl::Span<const double> values, absl::Span<double> out) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
  for (size_t first = 0; first < order.size();) {
    size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double rank = static_cast<double>(first + end + 1) / 2;
    for (; first < end; ++first) out[order[first]] = rank;
  }
}

double SumOf(absl::Span<const double> values, absl::Span<const double> weights) {
  return weights.empty() ? std::accumulate(values.begin(), values.end(), 0.0)
                         : std::inner_product(values.begin(), values.end(), weights.begin(), 0.0);
}

double EvaluateScalar(const Functional& functional, absl::Span<const double> values,
                      absl::Span<const double> weights) {
  const auto beyond = [&](double value) { return Excess(functional, value) > 0; };
  switch (functional.type) {
    case FunctionalType::kSum:
      return SumOf(values, weights);
    case FunctionalType::kSumBeyond:
      return beyond(SumOf(values, weights)) ? 1 : 0;
    case FunctionalType::kMean:
      return MeanOf(values);
    case FunctionalType::kMax:
      return *std::max_element(values.begin(), values.end());
    case FunctionalType::kMin:
      return *std::min_element(values.begin(), values.end());
    case FunctionalType::kAny:
      return std::any_of(values.begin(), values.end(), beyond) ? 1 : 0;
    case FunctionalType::kAll:
      return std::all_of(values.begin(), values.end(), beyond) ? 1 : 0;
    case FunctionalType::kCount:
      return static_cast<double>(std::count_if(values.begin(), values.end(), beyond));
    case FunctionalType::kExcess: {
      double sum = 0;
      for (const double value : values) sum += std::max(Excess(functional, value), 0.0);
      return sum;
    }
    case FunctionalType::kImprovement: {
      double best = 0;
      for (const double value : values) best = std::max(best, Excess(functional, value));
      return best;
    }
    case FunctionalType::kLongestRun:
      return LongestRun(functional, values);
    case FunctionalType::kArgmax:
    case FunctionalType::kArgmin:
    case FunctionalType::kRank:
      break;
  }
  return 0;
}

// Squares are those of multiples of the largest deviation, which neither overflow nor underflow.
double StdOf(absl::Span<const double> values) {
  const double mean = MeanOf(values);
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value - mean));
  if (largest == 0) return 0;
  double squares = 0;
  for (const double value : values) {
    const double deviation = (value - mean) / largest;
    squares += deviation * deviation;
  }
  return largest * std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double ErrorOfIndependentMean(absl::Span<const double> values) {
  return StdOf(values) / std::sqrt(static_cast<double>(values.size()));
}

std::vector<std::vector<double>> DivideIntoReplicates(absl::Span<const double> values,
                                                      int64_t replicates) {
  std::vector<std::vector<double>> divided(replicates);
  if (replicates == 0) return divided;
  for (size_t path = 0; path < values.size(); ++path) {
    divided[path % replicates].push_back(values[path]);
  }
  return divided;
}

// `ascending` are the values in ascending order.
double ErrorOfQuantile(const std::vector<double>& ascending, double q) {
  const double s = std::sqrt(q * (1 - q) / static_cast<double>(ascending.size()));
  const double low = QuantileOf(ascending, std::max(q - s, 0.0));
  const double high = QuantileOf(ascending, std::min(q + s, 1.0));
  return (high - low) / 2;
}

}  // namespace

PathDependence DependenceOf(const SampleRequest& request) {
  return {request.sampling == Sampling::kSobol ? kernels::kSobolReplicates : 0};
}

double ErrorOfMean(absl::Span<const double> values, const PathDependence& dependence) {
  if (dependence.replicates == 0) return ErrorOfIndependentMean(values);
  std::vector<double> means;
  for (const std::vector<double>& own : DivideIntoReplicates(values, dependence.replicates)) {
    means.push_back(MeanOf(own));
  }
  return ErrorOfIndependentMean(means);
}

PathStatistics StatisticsOf(std::vector<double> values, absl::Span<const double> quantiles,
                            const PathDependence& dependence) {
  PathStatistics statistics;
  statistics.mean = MeanOf(values);
  statistics.std = StdOf(values);
  statistics.mean_error = ErrorOfMean(values, dependence);
  if (quantiles.empty()) return statistics;
  std::vector<std::vector<double>> replicates =
      DivideIntoReplicates(values, dependence.replicates);  // none if paths are independent
  for (std::vector<double>& replicate : replicates) std::sort(replicate.begin(), replicate.end());
  std::sort(values.begin(), values.end());
  for (const double q : quantiles) {
    statistics.quantiles.push_back(QuantileOf(values, q));
    if (replicates.empty()) {
      statistics.quantile_errors.push_back(ErrorOfQuantile(values, q));
      continue;
    }
    std::vector<double> own;
    own.reserve(replicates.size());
    for (const std::vector<double>& replicate : replicates) own.push_back(QuantileOf(replicate, q));
    statistics.quantile_errors.push_back(ErrorOfIndependentMean(own));
  }
  return statistics;
}

double ErrorOfSettledEvent(int64_t paths) {
  const double probability = 1 / static_cast<double>(paths + 2);
  return std::sqrt(probability * (1 - probability) / static_cast<double>(paths));
}

bool IsEvent(FunctionalType type) {
  return type == FunctionalType::kAny || type == FunctionalType::kAll ||
         type == FunctionalType::kSumBeyond || type == FunctionalType::kArgmax ||
         type == FunctionalType::kArgmin;
}

bool IsOfEachRow(FunctionalType type) {
  return type == FunctionalType::kArgmax || type == FunctionalType::kArgmin ||
         type == FunctionalType::kRank;
}

void Evaluate(const Functional& functional, absl::Span<const double> values,
              absl::Span<const double> weights, absl::Span<double> out) {
  switch (functional.type) {
    case FunctionalType::kArgmax:
      ShareAmongRowsOf(*std::max_element(values.begin(), values.end()), values, out);
      return;
    case FunctionalType::kArgmin:
      ShareAmongRowsOf(*std::min_element(values.begin(), values.end()), values, out);
      return;
    case FunctionalType::kRank:
      RankValues(values, out);
      return;
    default:
      out[0] = EvaluateScalar(functional, values, weights);
  }
}

}  // namespace chorale
