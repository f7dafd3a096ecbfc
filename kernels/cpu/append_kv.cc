// A copy and a transposition: bound by memory, so plain C++ serves every machine.
#include "kernels/append_kv.h"

#include <algorithm>
#include <cstdint>

#include "kernels/layout.h"

namespace chorale::kernels {
namespace {

// Keys into the panels of one head, panel by panel, so that writes to one panel are neighbours.
// k [n, Dh], row stride k_stride.
void AppendToPanels(const float* k, int64_t n, int64_t k_stride, int64_t offset, int64_t head_dim,
                    float* keys) {
  for (int64_t i = 0; i < n;) {
    const int64_t place = offset + i;
    const int64_t lane = place % kPanel;
    const int64_t count = std::min(kPanel - lane, n - i);
    float* panel = keys + (place / kPanel) * head_dim * kPanel + lane;
    const float* from = k + i * k_stride;
    for (int64_t c = 0; c < head_dim; ++c) {
      for (int64_t j = 0; j < count; ++j) panel[c * kPanel + j] = from[j * k_stride + c];
    }
    i += count;
  }
}

// Rows x [n, Dh], row stride x_stride, behind the first `offset` rows of `rows`.
void AppendRows(const float* x, int64_t n, int64_t x_stride, int64_t offset, int64_t head_dim,
                float* rows) {
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(x + i * x_stride, head_dim, rows + (offset + i) * head_dim);
  }
}

}  // namespace

void AppendKv(const AppendKvParams& p) {
  for (int64_t h = 0; h < p.kv_heads; ++h) {
    const float* k = p.k + h * p.head_dim;
    float* keys = p.keys + h * PackedKeysSize(p.capacity, p.head_dim);
    if (p.key_layout == KeyLayout::kRows) {
      AppendRows(k, p.n, p.kv_stride, p.offset, p.head_dim, keys);
    } else {
      AppendToPanels(k, p.n, p.kv_stride, p.offset, p.head_dim, keys);
    }
    AppendRows(p.v + h * p.head_dim, p.n, p.kv_stride, p.offset, p.head_dim,
               p.values + h * ValuesSize(p.capacity, p.head_dim));
  }
}

}  // namespace chorale::kernels
