#include "kernels/ops/truncated_mixture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/ops/random.h"
#include "kernels/ops/truncated_normal.h"

namespace chorale::kernels {
namespace {

// log of the weight of a component, times its probability in the interval.
std::vector<double> LogParts(const MixtureView& mixture, double low, double high) {
  std::vector<double> parts(mixture.components);
  for (int64_t j = 0; j < mixture.components; ++j) {
    const double log_interval = LogNormalInterval((low - mixture.mean[j]) / mixture.std[j],
                                                  (high - mixture.mean[j]) / mixture.std[j]);
    parts[j] = mixture.log_weight[j] + log_interval;
  }
  return parts;
}

// In (0, 1): the middle of one of 2^52 equal parts.
double OpenUniform(uint32_t low, uint32_t high) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32) | low;
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

}  // namespace

double MixtureLogInterval(const MixtureView& mixture, double low, double high) {
  const std::vector<double> parts = LogParts(mixture, low, high);
  const double largest = *std::max_element(parts.begin(), parts.end());
  if (!std::isfinite(largest)) return largest;
  double sum = 0;
  for (const double part : parts) sum += std::exp(part - largest);
  return std::min(largest + std::log(sum), 0.0);  // weights sum to 1, except for rounding
}

TruncatedDraw DrawTruncated(uint64_t seed, uint64_t path) {
  const std::array<uint32_t, 4> words = RandomBlock(seed, path, 0, RandomStream::kTruncated);
  return {.component = OpenUniform(words[0], words[1]), .value = OpenUniform(words[2], words[3])};
}

double MixtureTruncatedDraw(const MixtureView& mixture, double low, double high,
                            const TruncatedDraw& draw) {
  const std::vector<double> parts = LogParts(mixture, low, high);
  const double largest = *std::max_element(parts.begin(), parts.end());
  if (!std::isfinite(largest)) return std::clamp(MixtureMean(mixture), low, high);
  double total = 0;
  for (const double part : parts) total += std::exp(part - largest);
  std::vector<int64_t> order(mixture.components);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return mixture.mean[a] < mixture.mean[b]; });
  double cumulative = 0;
  int64_t chosen = order.front();
  for (const int64_t j : order) {
    const double part = std::exp(parts[j] - largest);
    if (part > 0) chosen = j;  // rounding may leave the last sum at the threshold
    cumulative += part;
    if (cumulative > draw.component * total) break;
  }
  const double mean = mixture.mean[chosen];
  const double std = mixture.std[chosen];
  const double z = TruncatedNormalQuantile((low - mean) / std, (high - mean) / std, draw.value);
  return std::clamp(mean + std * z, low, high);
}

}  // namespace chorale::kernels
