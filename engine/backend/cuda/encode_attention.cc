#include "engine/backend/cuda/encode_attention.h"

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/encode_attention.h"

namespace chorale::cuda {

bool HasWgmmaAttention(const KernelShape& shape, const Device& device) {
  return kernels::cuda::HasWgmmaAttention(shape.head_dim, device.properties().compute_major);
}

void AttendToEncoded(int64_t layer, const TileSet& set, const KernelShape& shape,
                     uint16_t* attended, Device& device) {
  device.Launch(kernels::cuda::LaunchEncodeAttention,
                {.tiles = set.tiles,
                 .q = set.q,
                 .q_stride = shape.q_stride,
                 .attended = attended,
                 .tile_count = set.count,
                 .shape = shape,
                 .layer = set.ContextLayer(layer),
                 .multiprocessors = device.properties().multiprocessors},
                "attention");
}

}  // namespace chorale::cuda
