// The random numbers of one step of one path, from one Philox block (kernels/ops/random.h). Also
// compiled for GPUs: every backend computes draws with the same operations in the same order.
#ifndef CHORALE_KERNELS_OPS_STEP_DRAW_H_
#define CHORALE_KERNELS_OPS_STEP_DRAW_H_

#include <Random123/philox.h>

#include <cmath>
#include <cstdint>

namespace chorale::kernels {

// The purpose of a draw. Never renumber the values: the samples of a seed depend on them.
enum class RandomStream : uint32_t {
  kSample = 0,      // step t of a sample path
  kOrder = 1,       // random orders of rows: step is the index of the Fisher-Yates swap
  kCentre = 2,      // centres of a memory set (spread_keys.h)
  kKeep = 3,        // keys that a memory set keeps (engine/backend/host/choose_keys.h)
  kCellCentre = 4,  // centres of the cells of a memory set (spread_in_cells.h)
};

struct StepDraw {
  double uniform = 0;  // in [0, 1), 53 bits: words 0 and 1; chooses the mixture component
  double normal = 0;   // standard normal, Box-Muller (cosine form) from words 2 and 3
};

R123_CUDA_DEVICE inline r123::Philox4x32::ctr_type PhiloxBlock(uint64_t seed, uint64_t path,
                                                               uint32_t step, RandomStream stream) {
  const r123::Philox4x32::ctr_type counter = {{static_cast<uint32_t>(path), step,
                                               static_cast<uint32_t>(path >> 32),
                                               static_cast<uint32_t>(stream)}};
  const r123::Philox4x32::key_type key = {
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  return r123::Philox4x32()(counter, key);
}

R123_CUDA_DEVICE inline StepDraw StepDrawOf(uint64_t seed, uint64_t path, uint32_t step) {
  const r123::Philox4x32::ctr_type words = PhiloxBlock(seed, path, step, RandomStream::kSample);
  const uint64_t bits = (static_cast<uint64_t>(words.v[1]) << 32) | words.v[0];
  StepDraw draw;
  draw.uniform = static_cast<double>(bits >> 11) * 0x1p-53;
  // In (0, 1], so that the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log((words.v[2] + 1.0) * 0x1p-32));
  constexpr double kTwoPi = 6.283185307179586476925;
  draw.normal = radius * std::cos(kTwoPi * (words.v[3] * 0x1p-32));
  return draw;
}

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_STEP_DRAW_H_
