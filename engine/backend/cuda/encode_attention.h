// The attention of the rows of a context that is being encoded, for both forms of the layers.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ENCODE_ATTENTION_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ENCODE_ATTENTION_H_

#include <cstdint>

#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/backend/cuda/tile_set.h"

namespace chorale::cuda {

// Returns whether the device has kernels of attention with wgmma for heads of this width.
bool HasWgmmaAttention(const KernelShape& shape, const Device& device);

// Stores attention in `attended`, [set.count, 64, H, Dh] bf16. REQUIRES: HasWgmmaAttention, and
// set.encodes.
void AttendToEncoded(int64_t layer, const TileSet& set, const KernelShape& shape,
                     uint16_t* attended, Device& device);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ENCODE_ATTENTION_H_
