#include <algorithm>
#include <cmath>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {
namespace {

// What one query head of one row gives to one key.
double Effect(const KeyAttentionParams& p, int64_t row, int64_t head, int64_t key) {
  const int64_t kv_head = head / (p.heads / p.kv_heads);
  if (p.row_hidden_key != nullptr && p.row_hidden_key[row * p.kv_heads + kv_head] == key) return 0;
  const double lse = p.lse[row * p.heads + head];
  if (lse == -HUGE_VAL) return 0;
  const float* q = p.q + row * p.q_stride + head * p.head_dim;
  const float* out = p.out + row * p.out_stride + head * p.head_dim;
  const float* keys = p.context_keys + kv_head * PackedKeysSize(p.context_rows, p.head_dim);
  const float* value =
      p.context_values + kv_head * ValuesSize(p.context_rows, p.head_dim) + key * p.head_dim;
  double dot = 0;
  double square = 0;
  for (int64_t d = 0; d < p.head_dim; ++d) {
    dot +=
        static_cast<double>(q[d]) * keys[((key / kPanel) * p.head_dim + d) * kPanel + key % kPanel];
    square += (static_cast<double>(out[d]) - value[d]) * (static_cast<double>(out[d]) - value[d]);
  }
  double score = p.scale * dot;
  if (p.context_log_weights != nullptr) {
    score += p.context_log_weights[kv_head * p.context_rows + key];
  }
  const double attention = std::min(std::exp(score - lse), 1.0);
  const double odds = attention / std::max(1 - attention, 1e-6);
  return odds * odds * square;
}

}  // namespace

void KeyAttention(const KeyAttentionParams& p) {
  const int64_t group = p.heads / p.kv_heads;
  for (int64_t kv_head = 0; kv_head < p.kv_heads; ++kv_head) {
    for (int64_t key = p.first_key; key < p.first_key + p.keys; ++key) {
      double sum = 0;
      for (int64_t row = 0; row < p.rows; ++row) {
        for (int64_t j = 0; j < group; ++j) sum += Effect(p, row, kv_head * group + j, key);
      }
      p.importance[kv_head * p.context_rows + key] = sum;
    }
  }
}

}  // namespace chorale::kernels::reference
