#include "kernels/ops/mixture_quantiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/normal_quantile.h"

namespace chorale::kernels {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
// An iteration converges with the third power of its step, relative to the scale of the density,
// which is at least the smallest standard deviation: after a step of this part of it, the error is
// below 1e-12 of it.
constexpr double kLastStep = 1e-4;

std::vector<MixtureQuantiles::Normal> NormalsOf(const MixtureView& mixture) {
  std::vector<MixtureQuantiles::Normal> normals;
  normals.reserve(mixture.components);
  for (int64_t j = 0; j < mixture.components; ++j) {
    normals.push_back({mixture.mean[j], mixture.std[j], std::exp(mixture.log_weight[j])});
  }
  return normals;
}

}  // namespace

QuantileTarget::QuantileTarget(double probability)
    : lower(probability <= 0.5),
      mass(lower ? probability : 1.0 - probability),
      normal(NormalQuantile(probability)) {}

MixtureQuantiles::MixtureQuantiles(const MixtureView& mixture)
    : MixtureQuantiles(NormalsOf(mixture)) {}

MixtureQuantiles::MixtureQuantiles(const std::vector<Normal>& normals)
    : smallest_std_(std::numeric_limits<double>::infinity()) {
  double total = 0;
  for (const Normal& normal : normals) {
    total += normal.weight;
    mean_ += normal.weight * normal.mean;
  }
  mean_ /= total;
  double variance = 0;
  components_.reserve(normals.size());
  for (const Normal& normal : normals) {
    const double weight = normal.weight / total;
    if (weight == 0) continue;
    const double shift = normal.mean - mean_;
    variance += weight * (normal.std * normal.std + shift * shift);
    components_.push_back({.mean = normal.mean,
                           .std = normal.std,
                           .inverse_std = 1 / normal.std,
                           .half_weight = weight / 2,
                           .peak = weight / normal.std * kInverseSqrtTwoPi});
    smallest_std_ = std::min(smallest_std_, normal.std);
  }
  std_ = std::sqrt(variance);
}

MixtureQuantiles::Local MixtureQuantiles::LocalAt(double y, bool lower) const {
  const double sign = lower ? -kSqrtHalf : kSqrtHalf;
  Local local;
  for (const Component& component : components_) {
    const double z = (y - component.mean) * component.inverse_std;
    const double density = component.peak * std::exp(-0.5 * z * z);
    local.mass += component.half_weight * std::erfc(sign * z);
    local.density += density;
    local.slope -= density * z * component.inverse_std;
  }
  return local;
}

// Halley's method inside a bracket that shrinks at every step. A step that leaves the bracket is
// replaced by bisection, and so is one of three steps if they barely shrink it, for plateaus
// between narrow components.
double MixtureQuantiles::At(const QuantileTarget& target, double start) const {
  // The quantile lies between the smallest and the largest of the components' own quantiles.
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const Component& component : components_) {
    const double slack = 1e-6 * component.std;
    const double own = component.mean + target.normal * component.std;
    low = std::min(low, own - slack);
    high = std::max(high, own + slack);
  }
  double y = std::clamp(start, low, high);
  double width = high - low;
  for (int i = 0; i < 300 && low < high; ++i) {
    const Local local = LocalAt(y, target.lower);
    // Rises with y.
    const double excess = target.lower ? local.mass - target.mass : target.mass - local.mass;
    if (excess == 0) return y;
    (excess < 0 ? low : high) = y;
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    const double newton = excess / local.density;
    const double bend = std::clamp(1 - 0.5 * newton * local.slope / local.density, 0.5, 2.0);
    double next = y - newton / bend;
    const double step = std::abs(next - y);
    if (step <= kLastStep * smallest_std_ || step <= 4e-16 * std::abs(y)) return next;
    if (!(next > low && next < high) || (i % 3 == 2 && high - low > 0.5 * width)) next = middle;
    if (i % 3 == 2) width = high - low;
    y = next;
  }
  return y;
}

}  // namespace chorale::kernels
