// The order of work for one K/V head and a block of up to 64 keys:
//
// clang-format off
//   values of the block to panels                 like keys, so that a vector holds 16 keys
//   for each tile of up to 64 queries
//     for each group of kFmaRows queries
//       scores = q keys^T + log w - lse           by multiply-adds; scores stay in L1
//       distances = |o - value|^2                 of differences: |o|^2 - 2 o v + |v|^2 would
//                                                 cancel where a query attends to a single key
//       sums += (p / (1 - p))^2 distances         float32, query by query
//   importance += sums                            float64, once per tile
// clang-format on
//
// Every sum runs over queries, and over the head width, in a fixed order per key.
#include "kernels/ops/key_attention.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/integer_math.h"
#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"
#include "kernels/ops/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/key_attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention_tile-inl.h"
#include "kernels/cpu/elementwise-inl.h"
#include "kernels/cpu/fma_tile-inl.h"
#include "kernels/cpu/query_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

inline constexpr int64_t kMeasuredKeys = 64;

struct alignas(64) MeasuringQueries {
  float q[kTileQueries * kMaxHeadDim];  // [query][head_dim], scaled, in units of log 2
  float o[kTileQueries * kMaxHeadDim];  // [query][head_dim]
  float lse[kTileQueries];              // in units of log 2; inf for a query that adds nothing
  int32_t hidden_key[kTileQueries];
};

struct alignas(64) MeasuredKeys {
  float values[kMeasuredKeys * kMaxHeadDim];  // panels; the padding of the last panel is zero
  float log_weight[kMeasuredKeys];            // in units of log 2
  float scores[kFmaRows * kMeasuredKeys];     // of one group of queries
  float sums[kMeasuredKeys];                  // over one tile of queries
  const float* keys = nullptr;                // panels
  int64_t first = 0;                          // key of the context
  int64_t count = 0;
  int64_t head_dim = 0;

  int64_t padded() const { return RoundUp(count, kPanel); }
  // The element of the panels at which `key` of the block begins.
  int64_t Offset(int64_t key) const { return (key / kPanel) * head_dim * kPanel + key % kPanel; }
};

void LoadQueries(const KeyAttentionParams& p, const TileRange& range, MeasuringQueries& queries) {
  const float scale = static_cast<float>(p.scale * 1.4426950408889634);
  for (int64_t i = 0; i < range.padded; ++i) {
    float* q = queries.q + i * p.head_dim;
    float* o = queries.o + i * p.head_dim;
    queries.lse[i] = -kMinusInfinity;
    queries.hidden_key[i] = -1;
    if (i >= range.count) {
      std::fill_n(q, p.head_dim, 0.0f);
      std::fill_n(o, p.head_dim, 0.0f);
      continue;
    }
    const int64_t row = range.Row(i);
    const int64_t head = range.Head(i);
    CopyScaled(p.q + row * p.q_stride + head * p.head_dim, scale, p.head_dim, q);
    std::copy_n(p.out + row * p.out_stride + head * p.head_dim, p.head_dim, o);
    const float lse = p.lse[row * p.heads + head];
    if (lse != kMinusInfinity) queries.lse[i] = lse * kLog2E;
    if (p.row_hidden_key != nullptr) {
      queries.hidden_key[i] = p.row_hidden_key[row * p.kv_heads + range.kv_head];
    }
  }
}

void LoadKeys(const KeyAttentionParams& p, int64_t kv_head, int64_t first, int64_t count,
              MeasuredKeys& block) {
  block.first = first;
  block.count = count;
  block.head_dim = p.head_dim;
  block.keys = p.context_keys + kv_head * PackedKeysSize(p.context_rows, p.head_dim) +
               first * p.head_dim;  // first is a multiple of kPanel
  const float* values =
      p.context_values + kv_head * ValuesSize(p.context_rows, p.head_dim) + first * p.head_dim;
  std::fill_n(block.values, block.padded() * p.head_dim, 0.0f);
  for (int64_t key = 0; key < count; ++key) {
    float* to = block.values + block.Offset(key);
    for (int64_t c = 0; c < p.head_dim; ++c) to[c * kPanel] = values[key * p.head_dim + c];
  }
  std::fill_n(block.log_weight, block.padded(), 0.0f);
  if (p.context_log_weights == nullptr) return;
  const float* log_weights = p.context_log_weights + kv_head * p.context_rows + first;
  for (int64_t key = 0; key < count; ++key) block.log_weight[key] = log_weights[key] * kLog2E;
}

// |o - value|^2 of kFmaRows queries and kVectors vectors of keys.
template <int kVectors>
HWY_INLINE void Distances(const float* o, const float* v0, const float* v1, int64_t head_dim,
                          VF32 (&sum)[kFmaRows][kVectors]) {
  const F32 d;
  const float* const v[2] = {v0, v1};
  CHORALE_UNROLL
  for (int r = 0; r < kFmaRows; ++r) {
    CHORALE_UNROLL
    for (int i = 0; i < kVectors; ++i) sum[r][i] = hn::Zero(d);
  }
  for (int64_t c = 0; c < head_dim; ++c) {
    VF32 value[kVectors];
    CHORALE_UNROLL
    for (int i = 0; i < kVectors; ++i) value[i] = hn::Load(d, v[i] + c * kPanel);
    CHORALE_UNROLL
    for (int r = 0; r < kFmaRows; ++r) {
      const VF32 output = hn::Set(d, o[r * head_dim + c]);
      CHORALE_UNROLL
      for (int i = 0; i < kVectors; ++i) {
        const VF32 difference = hn::Sub(output, value[i]);
        sum[r][i] = hn::MulAdd(difference, difference, sum[r][i]);
      }
    }
  }
}

// Adds what a group of queries gives to kVectors vectors of keys, from key `key` of the block on.
template <int kVectors>
HWY_INLINE void MeasureVectors(const MeasuringQueries& queries, int64_t query, int64_t key,
                               MeasuredKeys& block) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const int64_t head_dim = block.head_dim;
  const int64_t at0 = block.Offset(key);
  const int64_t at1 = kVectors > 1 ? block.Offset(key + kLanes) : at0;
  {
    FmaTile<F32, kFmaRows, kVectors> scores;
    scores.SetZero(d);
    scores.MulAdd(d, queries.q + query * head_dim, head_dim, block.keys + at0, block.keys + at1,
                  kPanel, head_dim);
    scores.Store(d, block.scores, kMeasuredKeys);
  }
  VF32 distance[kFmaRows][kVectors];
  Distances<kVectors>(queries.o + query * head_dim, block.values + at0, block.values + at1,
                      head_dim, distance);
  const VF32 largest = hn::Set(d, std::numeric_limits<float>::max());
  VF32 sum[kVectors];
  CHORALE_UNROLL
  for (int i = 0; i < kVectors; ++i) sum[i] = hn::Load(d, block.sums + key + i * kLanes);
  CHORALE_UNROLL
  for (int r = 0; r < kFmaRows; ++r) {
    const VF32 lse = hn::Set(d, queries.lse[query + r]);
    const auto hidden = hn::Set(di, static_cast<int32_t>(queries.hidden_key[query + r]));
    VF32 p[kVectors];
    CHORALE_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const VF32 score = hn::Add(hn::LoadU(d, block.scores + r * kMeasuredKeys + i * kLanes),
                                 hn::Load(d, block.log_weight + key + i * kLanes));
      // Above 0 by rounding only, or for the hidden key.
      p[i] = hn::Min(hn::Sub(score, lse), hn::Zero(d));
    }
    Exp2NonPositive(d, p);
    CHORALE_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const VF32 rest = hn::Max(hn::Sub(hn::Set(d, 1.0f), p[i]), hn::Set(d, kLeastRest));
      const VF32 odds = hn::Div(p[i], rest);
      const VF32 effect = hn::Mul(hn::Mul(odds, hn::Min(distance[r][i], largest)), odds);
      const auto index = hn::Iota(di, static_cast<int32_t>(block.first + key + i * kLanes));
      const auto is_hidden = hn::RebindMask(d, hn::Eq(index, hidden));
      sum[i] = hn::Add(sum[i], hn::IfThenZeroElse(is_hidden, effect));
    }
  }
  CHORALE_UNROLL
  for (int i = 0; i < kVectors; ++i) hn::Store(sum[i], d, block.sums + key + i * kLanes);
}

HWY_NOINLINE void MeasureTile(const MeasuringQueries& queries, int64_t padded_queries,
                              MeasuredKeys& block) {
  const int64_t padded = block.padded();
  std::fill_n(block.sums, padded, 0.0f);
  for (int64_t query = 0; query < padded_queries; query += kFmaRows) {
    int64_t key = 0;
    for (; key + kFmaVectors * kLanes <= padded; key += kFmaVectors * kLanes) {
      MeasureVectors<kFmaVectors>(queries, query, key, block);
    }
    if (key < padded) MeasureVectors<1>(queries, query, key, block);
  }
}

void KeyAttention(const KeyAttentionParams& p) {
  MeasuringQueries queries;
  MeasuredKeys block;
  TileRange range;
  range.group = p.heads / p.kv_heads;
  const int64_t all = p.rows * range.group;
  for (range.kv_head = 0; range.kv_head < p.kv_heads; ++range.kv_head) {
    for (int64_t done = 0; done < p.keys; done += kMeasuredKeys) {
      const int64_t first = p.first_key + done;
      LoadKeys(p, range.kv_head, first, std::min(kMeasuredKeys, p.keys - done), block);
      double* importance = p.importance + range.kv_head * p.context_rows + first;
      std::fill_n(importance, block.count, 0.0);
      for (range.begin = 0; range.begin < all; range.begin += kTileQueries) {
        range.count = std::min(kTileQueries, all - range.begin);
        range.padded = RoundUp(range.count, kFmaRows);
        LoadQueries(p, range, queries);
        MeasureTile(queries, range.padded, block);
        for (int64_t key = 0; key < block.count; ++key) importance[key] += block.sums[key];
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(KeyAttention)
#endif  // HWY_ONCE
