#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {

void AppendKv(const AppendKvParams& p) {
  for (int64_t i = 0; i < p.n; ++i) {
    const int64_t key = p.offset + i;
    for (int64_t h = 0; h < p.kv_heads; ++h) {
      for (int64_t d = 0; d < p.head_dim; ++d) {
        const int64_t from = i * p.kv_stride + h * p.head_dim + d;
        p.keys[h * PackedKeysSize(p.capacity, p.head_dim) +
               ((key / kPanel) * p.head_dim + d) * kPanel + key % kPanel] = p.k[from];
        p.values[(h * p.capacity + key) * p.head_dim + d] = p.v[from];
      }
    }
  }
}

}  // namespace chorale::kernels::reference
