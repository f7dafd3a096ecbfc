#include "kernels/ops/random.h"

#include <utility>

namespace chorale::kernels {

std::array<uint32_t, 4> RandomBlock(uint64_t seed, uint64_t path, uint32_t step,
                                    RandomStream stream) {
  const r123::Philox4x32::ctr_type words = PhiloxBlock(seed, path, step, stream);
  return {words[0], words[1], words[2], words[3]};
}

StepDraw DrawStep(uint64_t seed, uint64_t path, uint32_t step) {
  return StepDrawOf(seed, path, step);
}

void DrawOrder(uint64_t seed, uint64_t path, int64_t n, int32_t* order) {
  DrawEndOfOrder(seed, path, n, n, order);
}

// Element i is final after swap i, and swaps begin at the end.
void DrawEndOfOrder(uint64_t seed, uint64_t path, int64_t n, int64_t count, int32_t* order) {
  for (int64_t i = 0; i < n; ++i) order[i] = static_cast<int32_t>(i);
  for (int64_t i = n - 1; i > 0 && i >= n - count; --i) {
    const std::array<uint32_t, 4> words =
        RandomBlock(seed, path, static_cast<uint32_t>(i), RandomStream::kOrder);
    // floor(u (i + 1)) for u of 64 bits: probabilities differ by at most 2^-64 n.
    const uint64_t bits = (static_cast<uint64_t>(words[1]) << 32) | words[0];
    const auto product = static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(i + 1);
    std::swap(order[i], order[static_cast<int64_t>(product >> 64)]);
  }
}

}  // namespace chorale::kernels
