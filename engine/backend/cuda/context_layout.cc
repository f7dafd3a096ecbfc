#include "engine/backend/cuda/context_layout.h"

#include "base/require.h"
#include "kernels/cuda/layout/kv_cache.h"

namespace chorale::cuda {

ContextLayout::ContextLayout(const KernelShape& shape, const ContextShape& context)
    : keys_(context.keys()),
      layer_elements_(shape.ContextElements(keys_)),
      layer_weights_(context.reduced() ? shape.kv_heads * kernels::cuda::ContextWeights(keys_)
                                       : 0) {
  ArenaLayout arena(kAlignment);
  kv_ = arena.Take<uint16_t>(shape.layers * layer_elements_);
  log_weights_ = arena.Take<float>(shape.layers * layer_weights_);
  bytes_ = arena.bytes();
}

kernels::cuda::Tile TileOf(const ContextKeys& context) {
  Require(context.capacity >= context.keys, "a context is laid out for its keys");
  kernels::cuda::Tile tile;
  tile.context = context.kv;
  tile.context_log_weights = context.log_weights;
  tile.context_rows = static_cast<int32_t>(context.keys);
  tile.context_capacity = static_cast<int32_t>(context.capacity);
  return tile;
}

ContextKeys KeysOf(const ResidentContext& context, const KernelShape& shape, const Device& device) {
  return ContextLayout(shape, context.shape).Keys(device.ContextAt(context.kv));
}

}  // namespace chorale::cuda
