// A copy and a transposition, which are memory-bound: plain C++ is fast enough.
#include "kernels/ops/append_kv.h"

#include <algorithm>
#include <cstdint>

#include "kernels/ops/panel_layout.h"

namespace chorale::kernels {

void AppendKv(const AppendKvParams& p) {
  for (int64_t h = 0; h < p.kv_heads; ++h) {
    float* keys = p.keys + h * PackedKeysSize(p.capacity, p.head_dim);
    float* values = p.values + h * ValuesSize(p.capacity, p.head_dim);
    for (int64_t i = 0; i < p.n; ++i) {
      const float* v = p.v + i * p.kv_stride + h * p.head_dim;
      std::copy_n(v, p.head_dim, values + (p.offset + i) * p.head_dim);
    }
    // Panel by panel, so that writes to a panel are adjacent.
    for (int64_t i = 0; i < p.n;) {
      const int64_t position = p.offset + i;
      const int64_t lane = position % kPanel;
      const int64_t count = std::min(kPanel - lane, p.n - i);
      float* panel = keys + (position / kPanel) * p.head_dim * kPanel + lane;
      const float* k = p.k + i * p.kv_stride + h * p.head_dim;
      for (int64_t c = 0; c < p.head_dim; ++c) {
        for (int64_t j = 0; j < count; ++j) panel[c * kPanel + j] = k[j * p.kv_stride + c];
      }
      i += count;
    }
  }
}

}  // namespace chorale::kernels
