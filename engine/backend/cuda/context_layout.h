// The place of a context's keys, values and weights in its range of the context pool.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_CONTEXT_LAYOUT_H_
#define CHORALE_ENGINE_BACKEND_CUDA_CONTEXT_LAYOUT_H_

#include <cstdint>

#include "base/arena_layout.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/data/memory_set.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

// The keys to which tiles attend, in device memory, as Tile describes them.
struct ContextKeys {
  uint16_t* kv = nullptr;              // [layers] of K and V of `capacity` keys
  const float* log_weights = nullptr;  // null: all weights are 1
  int64_t keys = 0;
  int64_t capacity = 0;  // at least keys; more while further rows are still to be encoded
};

// The keys of one layer, in device memory.
struct LayerKeys {
  uint16_t* kv = nullptr;        // [ContextLayerSize(keys, Hkv, Dh)]
  float* log_weights = nullptr;  // [Hkv, ContextWeights(keys)]; null: all weights are 1
};

// Immutable.
class ContextLayout {
 public:
  ContextLayout(const KernelShape& shape, const ContextShape& context);

  int64_t bytes() const { return bytes_; }  // a multiple of kAlignment

  // Of the context whose range begins at `memory`.
  ContextKeys Keys(char* memory) const {
    const LayerKeys all = Layer(memory, 0);
    return {.kv = all.kv, .log_weights = all.log_weights, .keys = keys_, .capacity = keys_};
  }
  LayerKeys Layer(char* memory, int64_t layer) const {
    LayerKeys of_layer = {.kv = kv_.At(memory) + layer * layer_elements_};
    if (layer_weights_ > 0) of_layer.log_weights = log_weights_.At(memory) + layer * layer_weights_;
    return of_layer;
  }

 private:
  int64_t keys_;
  int64_t layer_elements_;         // of K and V
  int64_t layer_weights_;          // 0 unless the context is reduced
  ArenaArray<uint16_t> kv_;        // [L] layers of ContextLayerSize(keys, Hkv, Dh)
  ArenaArray<float> log_weights_;  // [L, Hkv, ContextWeights(keys)], in units of log 2, if reduced
  int64_t bytes_;
};

// A tile that attends to these keys. All other fields have their defaults.
kernels::cuda::Tile TileOf(const ContextKeys& context);

// The keys of a context that is resident.
ContextKeys KeysOf(const ResidentContext& context, const KernelShape& shape, const Device& device);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_CONTEXT_LAYOUT_H_
