// How a block of the head kernel divides its shared memory.
#ifndef CHORALE_KERNELS_CUDA_HEAD_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_HEAD_LAYOUT_H_

#include "kernels/cuda/head.h"
#include "kernels/layout.h"

namespace chorale::kernels::cuda {

inline constexpr int kHeadRows = 8;      // of a block: the targets of one group
inline constexpr int kHeadParts = 4;     // in which the sum over hidden elements is taken
inline constexpr int kHeadOutputs = 64;  // of the second map at a time

// Offsets in floats.
struct HeadLayout {
  int z = 0;        // [kHeadRows][width]
  int hidden = 0;   // [kHeadRows][hidden, rounded up to 4]
  int parts = 0;    // [kHeadParts][kHeadRows][kHeadOutputs]
  int raw = 0;      // [kHeadRows][3M]
  int mixture = 0;  // [kHeadRows][4][M] f64: means, stds, log weights, weights
  int bytes = 0;
};

constexpr HeadLayout HeadLayoutOf(const HeadParams& p) {
  HeadLayout layout;
  layout.z = 0;
  layout.hidden = layout.z + kHeadRows * p.width;
  layout.parts = layout.hidden + kHeadRows * static_cast<int>(RoundUp(p.hidden, 4));
  layout.raw = layout.parts + kHeadParts * kHeadRows * kHeadOutputs;
  layout.mixture = static_cast<int>(RoundUp(layout.raw + kHeadRows * 3 * p.components, 4));
  layout.bytes = 4 * (layout.mixture + 2 * kHeadRows * 4 * p.components);
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_LAYOUT_H_
