#include "engine/backend/cpu/context_layout.h"

#include "base/integer_math.h"
#include "engine/backend/cpu/memory_pool.h"

namespace chorale::cpu {
namespace {

constexpr int64_t kLineElements = MemoryPool::kAlignment / static_cast<int64_t>(sizeof(float));

}  // namespace

ContextLayout::ContextLayout(const ModelConfig& config, const ContextShape& shape)
    : shape_(LayerKvShape(config)),
      keys_(shape.keys()),
      layers_(config.n_layers),
      kv_elements_(shape_.Elements(keys_)),
      weight_elements_(shape.reduced() ? RoundUp(shape_.heads * keys_, kLineElements) : 0) {}

int64_t ContextLayout::bytes() const {
  const int64_t elements = layers_ * (kv_elements_ + weight_elements_);
  return RoundUp(elements * static_cast<int64_t>(sizeof(float)), MemoryPool::kAlignment);
}

}  // namespace chorale::cpu
