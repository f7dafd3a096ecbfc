#include "engine/backend/host/attention_kv.h"

#include <cassert>

#include "kernels/ops/append_kv.h"

namespace chorale {

KvShape LayerKvShape(const ModelConfig& config) {
  return {.heads = config.n_kv_heads, .head_dim = config.head_dim()};
}

void AppendKv(const KvShape& shape, int64_t n, const float* projected, int64_t stride,
              const KvView<float>& kv, int64_t offset) {
  const kernels::AppendKvParams params = {.k = projected,
                                          .v = projected + shape.heads * shape.head_dim,
                                          .keys = kv.keys,
                                          .values = kv.values,
                                          .n = n,
                                          .offset = offset,
                                          .capacity = kv.capacity,
                                          .kv_heads = shape.heads,
                                          .head_dim = shape.head_dim,
                                          .kv_stride = stride};
  assert(kernels::ValidateAppendKv(params).ok());
  kernels::AppendKv(params);
}

}  // namespace chorale
