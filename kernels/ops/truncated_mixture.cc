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

// In (0, 1): the middle of one of 2^52 equal parts.
double OpenUniform(uint32_t low, uint32_t high) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32) | low;
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

}  // namespace

TruncatedMixture::TruncatedMixture(const MixtureView& mixture, double low, double high)
    : mixture_(mixture), low_(low), high_(high), parts_(mixture.components) {
  for (int64_t j = 0; j < mixture.components; ++j) {
    parts_[j] =
        mixture.log_weight[j] + LogNormalInterval((low - mixture.mean[j]) / mixture.std[j],
                                                  (high - mixture.mean[j]) / mixture.std[j]);
  }
  log_largest_ = *std::max_element(parts_.begin(), parts_.end());
  if (!std::isfinite(log_largest_)) return;
  for (double& part : parts_) {
    part = std::exp(part - log_largest_);
    total_ += part;
  }
}

double TruncatedMixture::log_probability() const {
  if (!std::isfinite(log_largest_)) return log_largest_;
  return std::min(log_largest_ + std::log(total_), 0.0);  // weights sum to 1, except for rounding
}

TruncatedDraw DrawTruncated(uint64_t seed, uint64_t path) {
  const std::array<uint32_t, 4> words = RandomBlock(seed, path, 0, RandomStream::kTruncated);
  return {.component = OpenUniform(words[0], words[1]), .value = OpenUniform(words[2], words[3])};
}

double TruncatedMixture::Draw(const TruncatedDraw& draw) const {
  if (!std::isfinite(log_largest_)) return std::clamp(MixtureMean(mixture_), low_, high_);
  std::vector<int64_t> order(mixture_.components);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return mixture_.mean[a] < mixture_.mean[b]; });
  double cumulative = 0;
  int64_t chosen = order.front();
  for (const int64_t j : order) {
    if (parts_[j] > 0) chosen = j;  // rounding may leave the last sum at the threshold
    cumulative += parts_[j];
    if (cumulative > draw.component * total_) break;
  }
  const double mean = mixture_.mean[chosen];
  const double std = mixture_.std[chosen];
  const double z = TruncatedNormalQuantile((low_ - mean) / std, (high_ - mean) / std, draw.value);
  return std::clamp(mean + std * z, low_, high_);
}

}  // namespace chorale::kernels
