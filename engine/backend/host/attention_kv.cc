#include "engine/backend/host/attention_kv.h"

#include <algorithm>
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

void CopyKv(const KvShape& shape, int64_t first, int64_t n, const KvView<const float>& from,
            const KvView<float>& to) {
  using kernels::kPanel;
  assert(first % kPanel == 0);
  const int64_t width = shape.head_dim;
  const int64_t in_panels = n / kPanel * kPanel;
  for (int64_t head = 0; head < shape.heads; ++head) {
    std::copy_n(from.values + kernels::ValuesSize(head * from.capacity + first, width), n * width,
                to.values + kernels::ValuesSize(head * to.capacity + first, width));
    const float* keys =
        from.keys + head * kernels::PackedKeysSize(from.capacity, width) + first * width;
    float* copied = to.keys + head * kernels::PackedKeysSize(to.capacity, width) + first * width;
    std::copy_n(keys, in_panels * width, copied);
    if (in_panels == n) continue;
    // The last panel also contains other keys, or padding.
    for (int64_t d = 0; d < width; ++d) {
      const int64_t at = in_panels * width + d * kPanel;
      std::copy_n(keys + at, n - in_panels, copied + at);
    }
  }
}

}  // namespace chorale
