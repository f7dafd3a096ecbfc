// Converts the model's mixtures and log-densities to the results of requests, in the user's units.
#ifndef CHORALE_ENGINE_SESSION_MIXTURE_RESULTS_H_
#define CHORALE_ENGINE_SESSION_MIXTURE_RESULTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/data/feature_transform.h"
#include "kernels/ops/mixture_quantiles.h"

namespace chorale {

inline kernels::MixtureView ViewOf(const MixtureSpan& mixture) {
  return {mixture.mean.data(), mixture.std.data(), mixture.log_weight.data(),
          static_cast<int64_t>(mixture.mean.size())};
}

// Returns zeroed arrays for `rows` mixtures.
Mixtures MakeMixtures(int64_t rows, int64_t components);

// Writes row `row` of `mixtures`: the components in the order of their means, with means and
// standard deviations in the user's units, and weights that sum to 1.
void SetMixture(const MixtureSpan& mixture, const FeatureTransform& transform, int64_t row,
                Mixtures* mixtures);

// The cumulative probability of `y`, a value in the user's units, in [0, 1]. In the lower tail, its
// relative error is small; in the upper tail, its absolute error is that of a float64 near 1.
double CdfOf(const MixtureSpan& mixture, const FeatureTransform& transform, double y);

// Returns the joint log-density of the known values of a path of a tile: the sum of the first
// `known` terms. `log_densities` is [P, paths], in the model's units.
double KnownLogDensity(absl::Span<const double> log_densities, int64_t paths, int64_t path,
                       int64_t known, const FeatureTransform& transform);

// Copies of the mixtures of some rows, in the model's units.
struct RawMixtures {
  int64_t components = 0;          // M
  std::vector<double> mean;        // [rows, M]
  std::vector<double> std;         // [rows, M]
  std::vector<double> log_weight;  // [rows, M]

  int64_t rows() const { return static_cast<int64_t>(mean.size()) / components; }
  void Append(const MixtureSpan& mixture);
  MixtureSpan Row(int64_t row) const;
};

// Computes the mean, the standard deviation, the `quantiles` and, if `want_mixtures`, the mixture
// of each row. Slow with many quantiles, because each quantile is the root of a function. Only
// quantiles are snapped.
PredictResult SummariseRows(const RawMixtures& mixtures, const FeatureTransform& transform,
                            absl::Span<const kernels::QuantileTarget> quantiles, bool want_mixtures,
                            Snapping snapping);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_MIXTURE_RESULTS_H_
