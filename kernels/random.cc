#include "kernels/random.h"

#include <Random123/philox.h>

#include <cmath>
#include <utility>

namespace chorale::kernels {

std::array<uint32_t, 4> RandomBlock(uint64_t seed, uint64_t path, uint32_t step,
                                    RandomStream stream) {
  const r123::Philox4x32::ctr_type counter = {{static_cast<uint32_t>(path), step,
                                               static_cast<uint32_t>(path >> 32),
                                               static_cast<uint32_t>(stream)}};
  const r123::Philox4x32::key_type key = {
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  const r123::Philox4x32::ctr_type words = r123::Philox4x32()(counter, key);
  return {words[0], words[1], words[2], words[3]};
}

StepDraw DrawStep(uint64_t seed, uint64_t path, uint32_t step) {
  const std::array<uint32_t, 4> words = RandomBlock(seed, path, step, RandomStream::kSample);
  const uint64_t bits = (static_cast<uint64_t>(words[1]) << 32) | words[0];
  StepDraw draw;
  draw.uniform = static_cast<double>(bits >> 11) * 0x1p-53;
  // In (0, 1], so that the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log((words[2] + 1.0) * 0x1p-32));
  constexpr double kTwoPi = 6.283185307179586476925;
  draw.normal = radius * std::cos(kTwoPi * (words[3] * 0x1p-32));
  return draw;
}

void DrawOrder(uint64_t seed, uint64_t path, int64_t n, int32_t* order) {
  for (int64_t i = 0; i < n; ++i) order[i] = static_cast<int32_t>(i);
  for (int64_t i = n - 1; i > 0; --i) {
    const std::array<uint32_t, 4> words =
        RandomBlock(seed, path, static_cast<uint32_t>(i), RandomStream::kOrder);
    // floor(u (i + 1)) for u of 64 bits: no place is likelier than another by more than 2^-64 n.
    const uint64_t bits = (static_cast<uint64_t>(words[1]) << 32) | words[0];
    const auto product = static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(i + 1);
    std::swap(order[i], order[static_cast<int64_t>(product >> 64)]);
  }
}

}  // namespace chorale::kernels
