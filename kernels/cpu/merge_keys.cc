// A gather, which is memory-bound: plain C++ is fast enough, and has the same bits on every
// instruction set.
#include "kernels/ops/merge_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/ops/panel_layout.h"

namespace chorale::kernels {
namespace {

// Element 0 of a packed key; the others follow at distances of kPanel.
template <typename T>
T* KeyAt(T* keys, int64_t key, int64_t head_dim) {
  return keys + (key / kPanel) * head_dim * kPanel + key % kPanel;
}

void CopyKey(const MergeKeysParams& p, int64_t key, int64_t group) {
  const float* from = KeyAt(p.keys, key, p.head_dim);
  float* to = KeyAt(p.out_keys, group, p.head_dim);
  for (int64_t c = 0; c < p.head_dim; ++c) to[c * kPanel] = from[c * kPanel];
  std::copy_n(p.values + key * p.head_dim, p.head_dim, p.out_values + group * p.head_dim);
  p.out_log_weights[group] = p.log_weights == nullptr ? 0.0f : p.log_weights[key];
}

void MergeGroup(const MergeKeysParams& p, int64_t group) {
  const int32_t* begin = p.member + p.group_begin[group];
  const int32_t* end = p.member + p.group_begin[group + 1];
  double largest = 0;  // log-weight; weights are relative to it
  if (p.log_weights != nullptr) {
    largest = p.log_weights[*begin];
    for (const int32_t* key = begin; key < end; ++key) {
      largest = std::max<double>(largest, p.log_weights[*key]);
    }
  }
  const auto weight = [&](int32_t key) {
    return p.log_weights == nullptr ? 1.0 : std::exp(p.log_weights[key] - largest);
  };
  double total = 0;
  for (const int32_t* key = begin; key < end; ++key) total += weight(*key);
  float* out_key = KeyAt(p.out_keys, group, p.head_dim);
  float* out_value = p.out_values + group * p.head_dim;
  // Some elements at a time, whose sums are adjacent.
  constexpr int64_t kElements = 32;
  for (int64_t first = 0; first < p.head_dim; first += kElements) {
    const int64_t count = std::min(kElements, p.head_dim - first);
    std::array<double, kElements> key_sum = {};
    std::array<double, kElements> value_sum = {};
    for (const int32_t* key = begin; key < end; ++key) {
      const double w = weight(*key);
      const float* k = KeyAt(p.keys, *key, p.head_dim) + first * kPanel;
      const float* v = p.values + *key * p.head_dim + first;
      for (int64_t c = 0; c < count; ++c) key_sum[c] += w * k[c * kPanel];
      for (int64_t c = 0; c < count; ++c) value_sum[c] += w * v[c];
    }
    for (int64_t c = 0; c < count; ++c) {
      out_key[(first + c) * kPanel] = static_cast<float>(key_sum[c] / total);
      out_value[first + c] = static_cast<float>(value_sum[c] / total);
    }
  }
  p.out_log_weights[group] = static_cast<float>(largest + std::log(total));
}

}  // namespace

void MergeKeys(const MergeKeysParams& p) {
  for (int64_t group = p.first_group; group < p.end_group; ++group) {
    if (p.group_begin[group + 1] - p.group_begin[group] == 1) {
      CopyKey(p, p.member[p.group_begin[group]], group);
    } else {
      MergeGroup(p, group);
    }
  }
}

}  // namespace chorale::kernels
