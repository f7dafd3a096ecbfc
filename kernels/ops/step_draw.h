// The random numbers of one step of one path, from one Philox block (kernels/ops/random.h). Also
// compiled for GPUs: every backend computes draws with the same operations in the same order.
#ifndef CHORALE_KERNELS_OPS_STEP_DRAW_H_
#define CHORALE_KERNELS_OPS_STEP_DRAW_H_

#include <Random123/philox.h>

#include <cmath>
#include <cstdint>

#include "kernels/ops/normal_quantile.h"

namespace chorale::kernels {

// The purpose of a draw. Never renumber the values: the samples of a seed depend on them.
enum class RandomStream : uint32_t {
  kSample = 0,      // step t of a sample path
  kOrder = 1,       // random orders of rows: step is the index of the Fisher-Yates swap
  kCentre = 2,      // centres of a memory set (spread_keys.h)
  kKeep = 3,        // keys that a memory set keeps (engine/backend/host/choose_keys.h)
  kCellCentre = 4,  // centres of the cells of a memory set (spread_in_cells.h)
  kSobol = 5,       // scrambling of step t of Sobol paths
  kTruncated = 6,   // values from an interval (truncated_mixture.h)
};

// The flag of path numbers whose paths use Sobol points (SobolDraw) instead of independent random
// numbers. Such a path number is this flag, plus a set of paths (a multiple of 2^32, below the
// flag), plus the index of the path in the set. Path p of a set belongs to replicate
// p mod kSobolReplicates, and uses point floor(p / kSobolReplicates) of it.
constexpr uint64_t kSobolFlag = uint64_t{1} << 62;
constexpr int kSobolReplicates = 8;

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

R123_CUDA_DEVICE inline uint32_t ReverseBits(uint32_t x) {
  x = (x >> 16) | (x << 16);
  x = ((x & 0xff00ff00u) >> 8) | ((x & 0x00ff00ffu) << 8);
  x = ((x & 0xf0f0f0f0u) >> 4) | ((x & 0x0f0f0f0fu) << 4);
  x = ((x & 0xccccccccu) >> 2) | ((x & 0x33333333u) << 2);
  return ((x & 0xaaaaaaaau) >> 1) | ((x & 0x55555555u) << 1);
}

// Owen's nested scrambling of a number whose bits are reversed: bit k is flipped or not, depending
// on the bits below it. The hash of Laine and Karras, "Stratified sampling for stochastic
// transparency", 2011, with the multipliers of Vegdahl, "Building a better LK hash", 2021.
R123_CUDA_DEVICE inline uint32_t ScrambleReversed(uint32_t x, uint32_t key) {
  x ^= x * 0x3d20adeau;
  x += key;
  x *= (key >> 16) | 1u;
  x ^= x * 0x05526c56u;
  x ^= x * 0x53a22864u;
  return x;
}

// The second coordinate of point `index` of the Sobol sequence, as a multiple of 2^-32. The first
// one is ReverseBits(index).
R123_CUDA_DEVICE inline uint32_t SecondSobolCoordinate(uint32_t index) {
  uint32_t sum = 0;
  for (uint32_t direction = 0x80000000u; index != 0; index >>= 1) {
    if ((index & 1u) != 0) sum ^= direction;
    direction ^= direction >> 1;
  }
  return sum;
}

// The numbers of a step are a point of the two-dimensional Sobol sequence. In each step and each
// replicate, the points are assigned to the paths in another order (a nested permutation, so that
// any 2^k aligned paths have a net), and their coordinates are scrambled: Burley, "Practical
// hash-based Owen scrambling", JCGT 9(4), 2020. So each point is uniform, replicates are
// independent, and the paths of a replicate are spread evenly in each step.
R123_CUDA_DEVICE inline StepDraw SobolDraw(uint64_t seed, uint64_t path, uint32_t step) {
  const uint64_t set = (path & ~kSobolFlag) >> 32;
  const auto in_set = static_cast<uint32_t>(path);
  const r123::Philox4x32::ctr_type keys =
      PhiloxBlock(seed, (set << 32) | (in_set % kSobolReplicates), step, RandomStream::kSobol);
  const uint32_t reversed = ScrambleReversed(ReverseBits(in_set / kSobolReplicates), keys.v[0]);
  const uint32_t index = ReverseBits(reversed);
  const uint32_t first = ReverseBits(ScrambleReversed(index, keys.v[1]));
  const uint32_t second =
      ReverseBits(ScrambleReversed(ReverseBits(SecondSobolCoordinate(index)), keys.v[2]));
  return {.uniform = first * 0x1p-32, .normal = NormalQuantile((second + 0.5) * 0x1p-32)};
}

R123_CUDA_DEVICE inline StepDraw StepDrawOf(uint64_t seed, uint64_t path, uint32_t step) {
  if ((path & kSobolFlag) != 0) return SobolDraw(seed, path, step);
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
