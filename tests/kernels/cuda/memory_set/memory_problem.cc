#include "tests/kernels/cuda/memory_set/memory_problem.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/ops/panel_layout.h"
#include "tests/kernels/cuda/attention_inputs.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {
namespace {

// Calls visit(index in [Hkv, keys, Dh], place of its K, place of its V) for all elements.
template <typename Visit>
void ForElements(int keys, const ModelShape& shape, const Visit& visit) {
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    for (int64_t key = 0; key < keys; ++key) {
      const int64_t block =
          ContextKeyBlockAt(0, h, key / kKeyBlockKeys, keys, shape.kv_heads, shape.head_dim);
      const auto in_block = static_cast<int>(key % kKeyBlockKeys);
      for (int d = 0; d < shape.head_dim; ++d) {
        visit((h * keys + key) * shape.head_dim + d,
              block + KeyBlockKeyAt(in_block, d, shape.head_dim),
              block + KeyBlockValueAt(in_block, d, shape.head_dim));
      }
    }
  }
}

}  // namespace

std::vector<uint16_t> PackKeyBlocks(const KeySet& set, int keys, const ModelShape& shape) {
  std::vector<uint16_t> kv(ContextLayerSize(keys, shape.kv_heads, shape.head_dim));
  ForElements(keys, shape, [&](int64_t i, int64_t key_at, int64_t value_at) {
    kv[key_at] = ToBf16(set.k[i]);
    kv[value_at] = ToBf16(set.v[i]);
  });
  return kv;
}

KeySet UnpackKeyBlocks(const std::vector<uint16_t>& kv, const std::vector<float>& log_weights,
                       int keys, const ModelShape& shape) {
  const int64_t elements = int64_t{shape.kv_heads} * keys * shape.head_dim;
  KeySet set = {.k = std::vector<float>(elements), .v = std::vector<float>(elements)};
  ForElements(keys, shape, [&](int64_t i, int64_t key_at, int64_t value_at) {
    set.k[i] = FromBf16(kv[key_at]);
    set.v[i] = FromBf16(kv[value_at]);
  });
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    const auto first = log_weights.begin() + h * ContextWeights(keys);
    set.log_weights.insert(set.log_weights.end(), first, first + keys);
  }
  return set;
}

MemoryProblem::MemoryProblem(const MemoryCase& shape, uint32_t seed) : case_(shape) {
  const int64_t elements = int64_t{shape.shape.kv_heads} * n() * shape.shape.head_dim;
  all.k = Rounded(RandomTensor(elements, seed));
  all.v = Rounded(RandomTensor(elements, seed + 1));
  all.log_weights = RandomTensor(int64_t{shape.shape.kv_heads} * n(), seed + 2);
  for (int64_t i = 0; i < std::ssize(all.log_weights); ++i) {
    float& log_weight = all.log_weights[i];
    log_weight = i % n() < shape.set_keys
                     ? std::min(std::abs(log_weight) * 2, 1.0f) * shape.largest_log_weight
                     : 0;
  }
}

void MemoryProblem::Upload() {
  // The gap between the set and the segment as further keys.
  const MemoryKeys places = {.set_keys = case_.set_keys, .segment_rows = case_.segment_rows};
  const int count = places.places();
  const int width = shape().head_dim;
  KeySet padded = {.k = std::vector<float>(int64_t{shape().kv_heads} * count * width),
                   .v = std::vector<float>(int64_t{shape().kv_heads} * count * width)};
  std::vector<float> log_weights(shape().kv_heads * ContextWeights(count), kNoKeyLogWeight);
  for (int64_t h = 0; h < shape().kv_heads; ++h) {
    for (int key = 0; key < n(); ++key) {
      const int64_t place = places.PlaceOf(key);
      const int64_t from = h * n() + key;
      std::copy_n(all.k.begin() + from * width, width,
                  padded.k.begin() + (h * count + place) * width);
      std::copy_n(all.v.begin() + from * width, width,
                  padded.v.begin() + (h * count + place) * width);
      log_weights[h * ContextWeights(count) + place] = all.log_weights[from];
    }
  }
  kv_ = DeviceArray<uint16_t>(PackKeyBlocks(padded, count, shape()));
  log_weights_ = DeviceArray<float>(log_weights);
}

MemoryKeys MemoryProblem::keys() const {
  return {.kv = kv_.data(),
          .log_weights = log_weights_.data(),
          .set_keys = case_.set_keys,
          .segment_rows = case_.segment_rows};
}

HeadKeys MemoryProblem::Head(int head) const {
  const int64_t width = shape().head_dim;
  const int64_t first = int64_t{head} * n();
  HeadKeys of_head = {
      .keys = std::vector<float>(PackedKeysSize(n(), width)),
      .values = {all.v.begin() + first * width, all.v.begin() + (first + n()) * width},
      .log_weights = {all.log_weights.begin() + first, all.log_weights.begin() + first + n()}};
  for (int64_t key = 0; key < n(); ++key) {
    for (int64_t d = 0; d < width; ++d) {
      of_head.keys[((key / kPanel) * width + d) * kPanel + key % kPanel] =
          all.k[(first + key) * width + d];
    }
  }
  for (float& log_weight : of_head.log_weights) log_weight *= std::numbers::ln2_v<float>;
  return of_head;
}

}  // namespace chorale::kernels::cuda
