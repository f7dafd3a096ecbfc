// The variants of a layer kernel: templates on the groups of a block (1, 2 or 4) and on the weight
// tiles of D (1, 2 or 4).
#ifndef CHORALE_KERNELS_CUDA_LAYER_KERNEL_VARIANTS_H_
#define CHORALE_KERNELS_CUDA_LAYER_KERNEL_VARIANTS_H_

#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

template <typename Kernels, int kGroups, typename Use>
ErrorCode WithWidthVariant(int64_t width_tiles, const Use& use) {
  if (width_tiles == 1) return use(Kernels::template kKernel<kGroups, 1>);
  return width_tiles == 2 ? use(Kernels::template kKernel<kGroups, 2>)
                          : use(Kernels::template kKernel<kGroups, 4>);
}

// Returns use(kernel) for the variant Kernels::kKernel<kGroups, kWidthTiles> of blocks of
// `block_rows` rows, up to 64, and of `width_tiles` weight tiles, up to 4.
template <typename Kernels, typename Use>
ErrorCode WithVariant(int block_rows, int64_t width_tiles, const Use& use) {
  if (block_rows <= kGroupRows) return WithWidthVariant<Kernels, 1>(width_tiles, use);
  return block_rows == 2 * kGroupRows ? WithWidthVariant<Kernels, 2>(width_tiles, use)
                                      : WithWidthVariant<Kernels, 4>(width_tiles, use);
}

// LoadKernel of all variants.
template <typename Kernels>
ErrorCode LoadVariants(int shared_bytes) {
  for (const int groups : {1, 2, 4}) {
    for (const int width_tiles : {1, 2, 4}) {
      const ErrorCode error =
          WithVariant<Kernels>(groups * kGroupRows, width_tiles,
                               [&](auto kernel) { return LoadKernel(kernel, shared_bytes); });
      if (error != 0) return error;
    }
  }
  return 0;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_KERNEL_VARIANTS_H_
