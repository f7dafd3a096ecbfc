// Keys and values in the layout of the kernels: of a layer of a context, of a layer of one path's
// buffer, or of the tokens of a row encoder.
#ifndef CHORALE_ENGINE_BACKEND_HOST_ATTENTION_KV_H_
#define CHORALE_ENGINE_BACKEND_HOST_ATTENTION_KV_H_

#include <cstdint>

#include "engine/model/model_config.h"
#include "kernels/ops/panel_layout.h"

namespace chorale {

// T is float, or const float for read access.
template <typename T>
struct KvView {
  T* keys = nullptr;    // [Hkv] packed keys of this capacity
  T* values = nullptr;  // [Hkv, capacity, Dh]
  int64_t capacity = 0;

  // Converts like T* to const T*. NOLINTNEXTLINE(google-explicit-constructor)
  operator KvView<const T>() const { return {keys, values, capacity}; }
};

// The shape of a token's keys and values.
struct KvShape {
  int64_t heads = 0;     // Hkv
  int64_t head_dim = 0;  // Dh

  // The number of elements in a block of memory for `capacity` tokens.
  int64_t Elements(int64_t capacity) const {
    return kernels::LayerKvSize(capacity, heads, head_dim);
  }

  // The keys and values in a block of memory for `capacity` tokens.
  template <typename T>
  KvView<T> At(T* memory, int64_t capacity) const {
    return {memory, memory + heads * kernels::PackedKeysSize(capacity, head_dim), capacity};
  }
};

// The shape of one layer of the trunk.
KvShape LayerKvShape(const ModelConfig& config);

// Copies the keys and values of n tokens to kv from position `offset` on. A token's row of
// `projected` is [K | V], [Hkv Dh] each; the distance between rows is `stride`.
void AppendKv(const KvShape& shape, int64_t n, const float* projected, int64_t stride,
              const KvView<float>& kv, int64_t offset);

// Copies keys and values [first, first + n) of all heads to the same positions of `to`, whose
// capacity may differ. Nothing else of `to` changes. REQUIRES: first is a multiple of
// kernels::kPanel. Copies to disjoint ranges may run at the same time.
void CopyKv(const KvShape& shape, int64_t first, int64_t n, const KvView<const float>& from,
            const KvView<float>& to);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_HOST_ATTENTION_KV_H_
