// Density, draws, moments and quantiles of one row's mixture, in float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/ops/mixture_head.h"

namespace chorale::kernels {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

double Weight(const MixtureView& mixture, int64_t j) { return std::exp(mixture.log_weight[j]); }

double TotalWeight(const MixtureView& mixture) {
  double total = 0;
  for (int64_t j = 0; j < mixture.components; ++j) total += Weight(mixture, j);
  return total;
}

double StandardScore(const MixtureView& mixture, int64_t j, double y) {
  return (y - mixture.mean[j]) / mixture.std[j];
}

// The mass below or above y. The smaller of the two has the smaller relative error.
enum class Tail { kLower, kUpper };

double TailMass(const MixtureView& mixture, double y, Tail tail) {
  double mass = 0;
  for (int64_t j = 0; j < mixture.components; ++j) {
    const double z = StandardScore(mixture, j, y);
    mass += Weight(mixture, j) * 0.5 * std::erfc((tail == Tail::kLower ? -z : z) * kSqrtHalf);
  }
  return mass / TotalWeight(mixture);
}

// z with Phi(-z) = q for 0 < q <= 1/2, by bisection on the tail; used only for a bracket.
double UpperNormalQuantile(double q) {
  double low = 0;
  double high = 39;  // the tail underflows beyond it
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(middle * kSqrtHalf) > q ? low : high) = middle;
  }
  return high;
}

}  // namespace

double MixtureLogDensity(const MixtureView& mixture, double y) {
  const auto term = [&](int64_t j) {
    const double z = StandardScore(mixture, j, y);
    return mixture.log_weight[j] - 0.5 * z * z - std::log(static_cast<double>(mixture.std[j])) -
           kHalfLogTwoPi;
  };
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < mixture.components; ++j) largest = std::max(largest, term(j));
  if (!std::isfinite(largest)) return largest;
  double sum = 0;
  for (int64_t j = 0; j < mixture.components; ++j) sum += std::exp(term(j) - largest);
  return largest + std::log(sum);
}

double MixtureDraw(const MixtureView& mixture, double uniform, double normal) {
  const double threshold = uniform * TotalWeight(mixture);
  std::vector<int64_t> order(mixture.components);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return mixture.mean[a] != mixture.mean[b] ? mixture.mean[a] < mixture.mean[b] : a < b;
  });
  double cumulative = 0;
  int64_t chosen = order.front();
  for (const int64_t j : order) {
    const double weight = Weight(mixture, j);
    if (weight > 0) chosen = j;  // rounding may leave the last sum at the threshold
    cumulative += weight;
    if (cumulative > threshold) break;
  }
  return mixture.mean[chosen] + mixture.std[chosen] * normal;
}

double MixtureMean(const MixtureView& mixture) {
  double sum = 0;
  for (int64_t j = 0; j < mixture.components; ++j) sum += Weight(mixture, j) * mixture.mean[j];
  return sum / TotalWeight(mixture);
}

double MixtureStd(const MixtureView& mixture) {
  const double mean = MixtureMean(mixture);
  double sum = 0;
  for (int64_t j = 0; j < mixture.components; ++j) {
    const double shift = mixture.mean[j] - mean;
    const double std = mixture.std[j];
    sum += Weight(mixture, j) * (std * std + shift * shift);
  }
  return std::sqrt(sum / TotalWeight(mixture));
}

double MixtureCdf(const MixtureView& mixture, double y) {
  return TailMass(mixture, y, Tail::kLower);
}

// Newton's method inside a bracket that shrinks at every step. A step that leaves the bracket or
// barely shrinks it is replaced by bisection, for plateaus between narrow components.
double MixtureQuantile(const MixtureView& mixture, double probability) {
  const Tail tail = probability <= 0.5 ? Tail::kLower : Tail::kUpper;
  const double target = probability <= 0.5 ? probability : 1.0 - probability;
  // The quantile lies between the smallest and the largest of the components' own quantiles.
  const double z = (tail == Tail::kLower ? -1 : 1) * UpperNormalQuantile(target);
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (int64_t j = 0; j < mixture.components; ++j) {
    const double slack = 1e-6 * mixture.std[j];
    const double own = mixture.mean[j] + z * mixture.std[j];
    low = std::min(low, own - slack);
    high = std::max(high, own + slack);
  }
  double y = 0.5 * (low + high);
  double width = high - low;
  for (int i = 0; i < 300 && low < high; ++i) {
    const double mass = TailMass(mixture, y, tail);
    const double excess = tail == Tail::kLower ? mass - target : target - mass;  // rises with y
    if (excess == 0) return y;
    (excess < 0 ? low : high) = y;
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    double next = y - excess / std::exp(MixtureLogDensity(mixture, y));
    const bool converged = std::abs(next - y) <= 4e-16 * std::abs(y);
    if (converged) return y;
    if (!(next > low && next < high) || (i % 3 == 2 && high - low > 0.5 * width)) next = middle;
    if (i % 3 == 2) width = high - low;
    y = next;
  }
  return y;
}

}  // namespace chorale::kernels
