// The place of a context's keys, values and weights in its range of the context pool:
//
//   [L] of { K and V of all heads (LayerKvShape(config).Elements(keys)),
//            for a reduced context also log-weights [Hkv, keys], padded to a cache line }
#ifndef CHORALE_ENGINE_BACKEND_CPU_CONTEXT_LAYOUT_H_
#define CHORALE_ENGINE_BACKEND_CPU_CONTEXT_LAYOUT_H_

#include <cstdint>

#include "engine/backend/host/attention_kv.h"
#include "engine/data/memory_set.h"
#include "engine/model/model_config.h"

namespace chorale::cpu {

// T is float, or const float for read access.
template <typename T>
struct ContextLayer {
  KvView<T> kv;              // of capacity keys()
  T* log_weights = nullptr;  // [Hkv, keys]; null if all weights are 1
};

// Immutable.
class ContextLayout {
 public:
  ContextLayout(const ModelConfig& config, const ContextShape& shape);

  int64_t keys() const { return keys_; }
  int64_t bytes() const;  // a multiple of the pool's alignment

  // `base` is the memory of the context.
  template <typename T>
  ContextLayer<T> Layer(T* base, int64_t layer) const {
    T* begin = base + layer * (kv_elements_ + weight_elements_);
    ContextLayer<T> view;
    view.kv = shape_.At(begin, keys_);
    if (weight_elements_ > 0) view.log_weights = begin + kv_elements_;
    return view;
  }

 private:
  KvShape shape_;
  int64_t keys_;
  int64_t layers_;
  int64_t kv_elements_;      // of one layer
  int64_t weight_elements_;  // of one layer; 0: no weights
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_CONTEXT_LAYOUT_H_
