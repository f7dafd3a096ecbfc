// Density, draws, moments and cdf of one row's mixture, in float64.
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
  double mass = 0;
  for (int64_t j = 0; j < mixture.components; ++j) {
    mass += Weight(mixture, j) * 0.5 * std::erfc(-StandardScore(mixture, j, y) * kSqrtHalf);
  }
  return mass / TotalWeight(mixture);
}

}  // namespace chorale::kernels
