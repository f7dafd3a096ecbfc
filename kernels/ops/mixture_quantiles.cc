#include "kernels/ops/mixture_quantiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace chorale::kernels {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
// An iteration converges with the third power of its step, relative to the scale of the density,
// which is at least the smallest standard deviation: after a step of this part of it, the error is
// below 1e-12 of it.
constexpr double kLastStep = 1e-4;

double TailOfNormal(double z) { return 0.5 * std::erfc(z * kSqrtHalf); }

// z with TailOfNormal(z) = mass for 0 < mass <= 1/2, by bisection.
double UpperNormalQuantile(double mass) {
  double low = 0;
  double high = 39;  // the tail underflows beyond it
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (TailOfNormal(middle) > mass ? low : high) = middle;
  }
  return high;
}

}  // namespace

QuantileTarget::QuantileTarget(double probability)
    : lower(probability <= 0.5), mass(lower ? probability : 1.0 - probability) {
  normal = (lower ? -1 : 1) * UpperNormalQuantile(mass);
}

MixtureQuantiles::MixtureQuantiles(const MixtureView& mixture)
    : mean_(MixtureMean(mixture)),
      std_(MixtureStd(mixture)),
      smallest_std_(std::numeric_limits<double>::infinity()) {
  double total = 0;
  for (int64_t j = 0; j < mixture.components; ++j) total += std::exp(mixture.log_weight[j]);
  components_.reserve(mixture.components);
  for (int64_t j = 0; j < mixture.components; ++j) {
    const double weight = std::exp(mixture.log_weight[j]) / total;
    if (weight == 0) continue;
    const double std = mixture.std[j];
    components_.push_back({.mean = mixture.mean[j],
                           .std = std,
                           .inverse_std = 1 / std,
                           .half_weight = weight / 2,
                           .peak = weight / std * kInverseSqrtTwoPi});
    smallest_std_ = std::min(smallest_std_, std);
  }
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
double MixtureQuantiles::At(const QuantileTarget& target) const {
  // The quantile lies between the smallest and the largest of the components' own quantiles.
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const Component& component : components_) {
    const double slack = 1e-6 * component.std;
    const double own = component.mean + target.normal * component.std;
    low = std::min(low, own - slack);
    high = std::max(high, own + slack);
  }
  double y = std::clamp(mean_ + target.normal * std_, low, high);
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
