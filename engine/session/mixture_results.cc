#include "engine/session/mixture_results.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "kernels/ops/mixture_head.h"

namespace chorale {

Mixtures MakeMixtures(int64_t rows, int64_t components) {
  const size_t size = static_cast<size_t>(rows * components);
  return {components, std::vector<double>(size), std::vector<double>(size),
          std::vector<double>(size)};
}

void SetMixture(const MixtureSpan& mixture, const FeatureTransform& transform, int64_t row,
                Mixtures* mixtures) {
  const int64_t components = mixtures->components;
  double total = 0;  // 1, except for rounding
  for (const double log_weight : mixture.log_weight) total += std::exp(log_weight);
  std::vector<int64_t> order(components);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return mixture.mean[a] < mixture.mean[b]; });
  for (int64_t place = 0; place < components; ++place) {
    const int64_t at = row * components + place;
    const int64_t m = order[place];
    mixtures->means[at] = transform.ToUser(mixture.mean[m]);
    mixtures->stds[at] = mixture.std[m] * transform.y_std();
    mixtures->weights[at] = std::exp(mixture.log_weight[m]) / total;
  }
}

double CdfOf(const MixtureSpan& mixture, const FeatureTransform& transform, double y) {
  const double model_y = (y - transform.y_mean()) / transform.y_std();
  // At most 1, except for the rounding of the weights.
  return std::min(kernels::MixtureCdf(ViewOf(mixture), model_y), 1.0);
}

double KnownLogDensity(absl::Span<const double> log_densities, int64_t paths, int64_t path,
                       int64_t known, const FeatureTransform& transform) {
  const double log_scale = std::log(transform.y_std());
  double sum = 0;
  for (int64_t i = 0; i < known; ++i) sum += log_densities[i * paths + path] - log_scale;
  return sum;
}

void RawMixtures::Append(const MixtureSpan& mixture) {
  mean.insert(mean.end(), mixture.mean.begin(), mixture.mean.end());
  std.insert(std.end(), mixture.std.begin(), mixture.std.end());
  log_weight.insert(log_weight.end(), mixture.log_weight.begin(), mixture.log_weight.end());
}

MixtureSpan RawMixtures::Row(int64_t row) const {
  const auto part = [&](const std::vector<double>& all) {
    return absl::MakeConstSpan(all).subspan(row * components, components);
  };
  return {part(mean), part(std), part(log_weight)};
}

PredictResult SummariseRows(const RawMixtures& mixtures, const FeatureTransform& transform,
                            absl::Span<const kernels::QuantileTarget> quantiles, bool want_mixtures,
                            Snapping snapping) {
  PredictResult result;
  const int64_t rows = mixtures.rows();
  if (want_mixtures) result.mixtures = MakeMixtures(rows, mixtures.components);
  for (int64_t row = 0; row < rows; ++row) {
    const MixtureSpan span = mixtures.Row(row);
    const kernels::MixtureView view = ViewOf(span);
    std::optional<kernels::MixtureQuantiles> solver;
    result.mean.push_back(transform.ToUser(kernels::MixtureMean(view)));
    result.std.push_back(kernels::MixtureStd(view) * transform.y_std());
    if (!quantiles.empty()) solver.emplace(view);
    for (const kernels::QuantileTarget& target : quantiles) {
      const double value = transform.ToUser(solver->At(target));
      result.quantiles.push_back(snapping == Snapping::kOn ? transform.target_support().Snap(value)
                                                           : value);
    }
    if (want_mixtures) SetMixture(span, transform, row, &result.mixtures);
  }
  return result;
}

}  // namespace chorale
