#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {
namespace {

// A set of keys of one K/V head: packed keys, values, and how many of them count. `hidden` is the
// key that does not.
struct KeySet {
  const float* keys = nullptr;
  const float* values = nullptr;
  int64_t count = 0;
  const float* log_weights = nullptr;
  int64_t hidden = -1;
};

double Key(const KeySet& set, int64_t head_dim, int64_t key, int64_t d) {
  return set.keys[((key / kPanel) * head_dim + d) * kPanel + key % kPanel];
}

// One query head of one row over both sets, by the definition: all scores, their softmax, the sum.
// Returns the log-sum-exp of the scores.
double Attend(const SharedContextAttentionParams& p, int64_t row, int64_t head,
              const std::vector<KeySet>& sets) {
  const float* q = p.q + row * p.q_stride + head * p.head_dim;
  std::vector<double> scores;
  double largest = -HUGE_VAL;
  for (const KeySet& set : sets) {
    for (int64_t key = 0; key < set.count; ++key) {
      if (key == set.hidden) continue;
      double dot = 0;
      for (int64_t d = 0; d < p.head_dim; ++d) dot += q[d] * Key(set, p.head_dim, key, d);
      scores.push_back(p.scale * dot + (set.log_weights == nullptr ? 0 : set.log_weights[key]));
      largest = std::max(largest, scores.back());
    }
  }
  std::vector<double> sum(p.head_dim, 0.0);
  double l = 0;
  size_t next = 0;
  for (const KeySet& set : sets) {
    for (int64_t key = 0; key < set.count; ++key) {
      if (key == set.hidden) continue;
      const double weight = std::exp(scores[next++] - largest);
      l += weight;
      for (int64_t d = 0; d < p.head_dim; ++d) {
        sum[d] += weight * set.values[key * p.head_dim + d];
      }
    }
  }
  float* out = p.out + row * p.out_stride + head * p.head_dim;
  for (int64_t d = 0; d < p.head_dim; ++d) {
    out[d] = scores.empty() ? 0.0f : static_cast<float>(sum[d] / l);
  }
  return scores.empty() ? -HUGE_VAL : largest + std::log(l);
}

}  // namespace

void SharedContextAttention(const SharedContextAttentionParams& p) {
  std::vector<float> lse(p.rows * p.heads);
  SharedContextAttentionWithLse(p, p.lse == nullptr ? lse.data() : p.lse);
}

void SharedContextAttentionWithLse(const SharedContextAttentionParams& p, float* lse) {
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t head = 0; head < p.heads; ++head) {
      const int64_t kv_head = head / (p.heads / p.kv_heads);
      std::vector<KeySet> sets;
      if (p.context_rows > 0) {
        sets.push_back(
            {p.context_keys + kv_head * PackedKeysSize(p.context_capacity, p.head_dim),
             p.context_values + kv_head * ValuesSize(p.context_capacity, p.head_dim),
             p.context_rows,
             p.context_log_weights == nullptr
                 ? nullptr
                 : p.context_log_weights + kv_head * p.context_capacity,
             p.row_hidden_key == nullptr ? -1 : p.row_hidden_key[row * p.kv_heads + kv_head]});
      }
      if (p.row_path != nullptr) {
        const int64_t path = p.row_path[row] * p.buffer_path_stride;
        sets.push_back(
            {p.buffer_keys + path + kv_head * PackedKeysSize(p.buffer_capacity, p.head_dim),
             p.buffer_values + path + kv_head * ValuesSize(p.buffer_capacity, p.head_dim),
             p.row_visible[row]});
      }
      lse[row * p.heads + head] = static_cast<float>(Attend(p, row, head, sets));
    }
  }
}

}  // namespace chorale::kernels::reference
