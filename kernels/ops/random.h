// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011), from Random123.
//
// A draw is a pure function of (seed, path, step, stream): key = seed (low word, high word),
// counter = (path low, step, path high, stream). It does not depend on the thread, tile, batch or
// machine, so a request returns the same samples regardless of concurrent work.
#ifndef CHORALE_KERNELS_OPS_RANDOM_H_
#define CHORALE_KERNELS_OPS_RANDOM_H_

#include <array>
#include <cstdint>

#include "kernels/ops/step_draw.h"

namespace chorale::kernels {

// The four 32-bit words of one Philox block.
std::array<uint32_t, 4> RandomBlock(uint64_t seed, uint64_t path, uint32_t step,
                                    RandomStream stream);

StepDraw DrawStep(uint64_t seed, uint64_t path, uint32_t step);

// Writes a uniformly random permutation of 0..n-1 to order [n] (Fisher-Yates, stream kOrder).
void DrawOrder(uint64_t seed, uint64_t path, int64_t n, int32_t* order);

// The same permutation, of which only the last `count` elements are in their places: a random
// choice of `count` numbers. Draws `count` numbers instead of n. REQUIRES: count <= n.
void DrawEndOfOrder(uint64_t seed, uint64_t path, int64_t n, int64_t count, int32_t* order);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_RANDOM_H_
