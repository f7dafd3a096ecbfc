// The order of work for one K/V head and a tile of up to 64 queries:
//
// clang-format off
//   for each block of context keys               keys and values of a block stay in L1
//     for each group of kFmaRows queries         their scores stay in registers, then in L1
//       scores = q keys^T (+ log w); online softmax; o += softmax values
//   for each path of the tile                    its queries are adjacent
//     the same over the visible keys of the path's buffer, into the same (m, l, o)
//   out = o / l; lse = m + log l
// clang-format on
//
// Every sum runs over keys (and over the head width) in a fixed order per query, independent of the
// other queries of the tile.
#include "kernels/ops/shared_context_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/integer_math.h"
#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/ops/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/shared_context_attention.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention_tile-inl.h"
#include "kernels/cpu/elementwise-inl.h"
#include "kernels/cpu/fma_tile-inl.h"
#include "kernels/cpu/query_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

void LoadTile(const SharedContextAttentionParams& p, const TileRange& range, AttentionTile& tile) {
  tile.head_dim = p.head_dim;
  tile.stride = std::max(p.head_dim, kPanel);
  const float scale = static_cast<float>(p.scale * 1.4426950408889634);
  for (int64_t i = 0; i < range.padded; ++i) {
    float* q = tile.q + i * tile.stride;
    if (i < range.count) {
      CopyScaled(p.q + range.Row(i) * p.q_stride + range.Head(i) * p.head_dim, scale, p.head_dim,
                 q);
    } else {
      // Padding of the last group: finite, computed, never stored.
      std::fill_n(q, p.head_dim, 0.0f);
    }
    tile.m[i] = kMinusInfinity;
  }
  std::fill_n(tile.o, range.padded * tile.stride, 0.0f);
  std::fill_n(tile.l, range.padded * kLanes, 0.0f);
}

void StoreTile(const SharedContextAttentionParams& p, const TileRange& range,
               const AttentionTile& tile) {
  const F32 d;
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t row = range.Row(i);
    const int64_t head = range.Head(i);
    const bool empty = tile.m[i] == kMinusInfinity;
    const float l = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, tile.l + i * kLanes)));
    CopyScaled(tile.o + i * tile.stride, empty ? 0.0f : 1.0f / l, p.head_dim,
               p.out + row * p.out_stride + head * p.head_dim);
    if (p.lse == nullptr) continue;
    const double log2_sum = tile.m[i] + std::log2(static_cast<double>(l));
    p.lse[row * p.heads + head] =
        empty ? kMinusInfinity : static_cast<float>(log2_sum * std::numbers::ln2);
  }
}

// Scores of kRows queries from `query` on against kVectors vectors of keys.
template <int kRows, int kVectors>
HWY_INLINE void ScoreVectors(AttentionTile& tile, int64_t query, const float* keys0,
                             const float* keys1, float* scores) {
  const F32 d;
  FmaTile<F32, kRows, kVectors> sums;
  sums.SetZero(d);
  sums.MulAdd(d, tile.q + query * tile.stride, tile.stride, keys0, keys1, kPanel, tile.head_dim);
  sums.Store(d, scores, kMaxBlockKeys);
}

// Scores against all panels of `keys` keys.
template <int kRows>
HWY_INLINE void ScoreBlock(AttentionTile& tile, int64_t query, const float* panels, int64_t keys) {
  const int64_t padded = RoundUp(keys, kPanel);
  const auto at = [&](int64_t key) {
    return panels + (key / kPanel) * tile.head_dim * kPanel + key % kPanel;
  };
  int64_t key = 0;
  for (; key + kFmaVectors * kLanes <= padded; key += kFmaVectors * kLanes) {
    ScoreVectors<kRows, kFmaVectors>(tile, query, at(key), at(key + kLanes), tile.scores + key);
  }
  if (key < padded) ScoreVectors<kRows, 1>(tile, query, at(key), at(key), tile.scores + key);
}

// What changes the scores of a block of context keys for the queries of a tile, apart from q and
// the keys.
struct ScoreChanges {
  bool weighted = false;
  bool hidden = false;
  alignas(64) float log_weight[kMaxBlockKeys];  // of the block's keys, in units of log 2
  int32_t hidden_key[kTileQueries];  // of the queries, counted from the first key of the context

  // For one K/V head; the hidden keys of all queries, and no weights yet.
  HWY_INLINE void SetQueries(const SharedContextAttentionParams& p, const TileRange& range) {
    weighted = p.context_log_weights != nullptr;
    hidden = p.row_hidden_key != nullptr;
    if (!hidden) return;
    for (int64_t i = 0; i < range.padded; ++i) {
      hidden_key[i] =
          i < range.count ? p.row_hidden_key[range.Row(i) * p.kv_heads + range.kv_head] : -1;
    }
  }

  // Keys [begin, begin + keys) of the context.
  HWY_INLINE void SetBlock(const SharedContextAttentionParams& p, int64_t kv_head, int64_t begin,
                           int64_t keys) {
    if (!weighted) return;
    const float* from = p.context_log_weights + kv_head * p.context_capacity + begin;
    for (int64_t k = 0; k < keys; ++k) log_weight[k] = from[k] * kLog2E;
    std::fill(log_weight + keys, log_weight + RoundUp(keys, kPanel), 0.0f);
  }

  // The scores of kRows queries from `query` on against the block that begins with key `begin`.
  template <int kRows>
  HWY_INLINE void Apply(int64_t query, int64_t begin, int64_t keys, float* scores) const {
    const F32 d;
    if (weighted) {
      for (int64_t k = 0; k < RoundUp(keys, kPanel); k += kLanes) {
        const VF32 more = hn::Load(d, log_weight + k);
        for (int r = 0; r < kRows; ++r) {
          float* score = scores + r * kMaxBlockKeys + k;
          hn::Store(hn::Add(hn::Load(d, score), more), d, score);
        }
      }
    }
    if (!hidden) return;
    for (int r = 0; r < kRows; ++r) {
      const int64_t key = hidden_key[query + r] - begin;
      if (key >= 0 && key < keys) scores[r * kMaxBlockKeys + key] = kMinusInfinity;
    }
  }
};

// One block of context keys, which begins with key `begin`, for kRows queries.
template <int kRows>
HWY_NOINLINE void ContextBlock(AttentionTile& tile, const ScoreChanges& changes, int64_t query,
                               const float* panels, const float* values, int64_t begin,
                               int64_t keys) {
  const F32 d;
  const int64_t padded = RoundUp(keys, kPanel);
  ScoreBlock<kRows>(tile, query, panels, keys);
  changes.Apply<kRows>(query, begin, keys, tile.scores);
  if (keys < padded) {
    for (int r = 0; r < kRows; ++r) {
      MaskScores(d, tile.scores + r * kMaxBlockKeys, keys, padded);
    }
  }
  for (int r = 0; r < kRows; r += 4) {
    SoftmaxRows<4>(tile, query + r, tile.scores + r * kMaxBlockKeys, padded);
  }
  AccumulateValues<KeyOrder::kOneSum, kRows>(tile, tile.scores, values, keys, query);
}

// Prefetches the buffers of the tile's paths, a few queries at a time, while the context is
// processed. A step reads each buffer once, so the buffer is not in a cache yet.
class BufferPrefetch {
 public:
  // `calls` is the number of calls of Next().
  BufferPrefetch(const SharedContextAttentionParams& p, const TileRange& range, int64_t calls)
      : p_(p),
        range_(range),
        keys_offset_(range.kv_head * PackedKeysSize(p.buffer_capacity, p.head_dim)),
        values_offset_(range.kv_head * ValuesSize(p.buffer_capacity, p.head_dim)),
        end_(p.row_path != nullptr ? range.count : 0),
        step_(CeilDiv(range.count, calls)) {}

  void Next() {
    for (const int64_t stop = std::min(end_, query_ + step_); query_ < stop; ++query_) {
      const int64_t row = range_.Row(query_);
      if (p_.row_path[row] == path_) continue;
      path_ = p_.row_path[row];
      const int64_t keys = p_.row_visible[row];
      const int64_t path = path_ * p_.buffer_path_stride;
      PrefetchToL2(p_.buffer_keys + path + keys_offset_, PackedKeysSize(keys, p_.head_dim));
      PrefetchToL2(p_.buffer_values + path + values_offset_, ValuesSize(keys, p_.head_dim));
    }
  }

 private:
  const SharedContextAttentionParams& p_;
  const TileRange& range_;
  const int64_t keys_offset_;
  const int64_t values_offset_;
  const int64_t end_;
  const int64_t step_;  // queries per call
  int64_t query_ = 0;
  int64_t path_ = -1;
};

void AttendContext(const SharedContextAttentionParams& p, const TileRange& range,
                   AttentionTile& tile) {
  const int64_t head_keys = PackedKeysSize(p.context_capacity, p.head_dim);
  const int64_t head_values = ValuesSize(p.context_capacity, p.head_dim);
  const float* keys = p.context_keys + range.kv_head * head_keys;
  const float* values = p.context_values + range.kv_head * head_values;
  // The end of the last head: after the last block of a head, the first block of the next head is
  // prefetched.
  const float* keys_end = p.context_keys + p.kv_heads * head_keys;
  const float* values_end = p.context_values + p.kv_heads * head_values;
  const int64_t block_keys = BlockKeys(p.head_dim);
  const int64_t groups = CeilDiv(range.padded, kFmaRows);
  // Elements of the next block to prefetch with each group of queries.
  const int64_t share = CeilDiv(block_keys * p.head_dim, groups);
  BufferPrefetch buffers(p, range, groups * CeilDiv(p.context_rows, block_keys));
  ScoreChanges changes;
  changes.SetQueries(p, range);
  for (int64_t begin = 0; begin < p.context_rows; begin += block_keys) {
    const int64_t count = std::min(block_keys, p.context_rows - begin);
    const float* block = keys + begin * p.head_dim;  // begin is a multiple of kPanel
    const float* block_values = values + begin * p.head_dim;
    PrefetchStream next_keys(block + RoundUp(count, kPanel) * p.head_dim, keys_end);
    PrefetchStream next_values(block_values + count * p.head_dim, values_end);
    changes.SetBlock(p, range.kv_head, begin, count);
    for (int64_t query = 0; query < range.padded; query += kFmaRows) {
      next_keys.Ask(share);
      next_values.Ask(share);
      buffers.Next();
      if (query + kFmaRows <= range.padded) {
        ContextBlock<kFmaRows>(tile, changes, query, block, block_values, begin, count);
      } else {
        ContextBlock<4>(tile, changes, query, block, block_values, begin, count);
      }
    }
  }
}

// Scores of a few queries against one panel of keys. Each sum is split into four independent sums
// over the head width, which hides latency with so few queries.
template <int kRows>
HWY_INLINE void ScorePanel(AttentionTile& tile, int64_t query, const float* panel, float* scores) {
  const F32 d;
  const float* q = tile.q + query * tile.stride;
  for (int64_t lane = 0; lane < kPanel; lane += kLanes) {
    VF32 sum[kRows][4];
    CHORALE_UNROLL
    for (int i = 0; i < 4 * kRows; ++i) sum[i / 4][i % 4] = hn::Zero(d);
    for (int64_t k = 0; k < tile.head_dim; k += 4) {
      CHORALE_UNROLL
      for (int part = 0; part < 4; ++part) {
        const VF32 key = hn::LoadU(d, panel + (k + part) * kPanel + lane);
        CHORALE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const VF32 factor = hn::Set(d, q[r * tile.stride + k + part]);
          sum[r][part] = hn::MulAdd(factor, key, sum[r][part]);
        }
      }
    }
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VF32 total = hn::Add(hn::Add(sum[r][0], sum[r][1]), hn::Add(sum[r][2], sum[r][3]));
      hn::Store(total, d, scores + r * kMaxBlockKeys + lane);
    }
  }
}

// o += p values for the keys of one panel, of which the first own[r] are visible to query r. Reads
// the values once for all queries if the same keys are visible to them, else once per query, with
// the same arithmetic.
template <int kRows>
HWY_INLINE void AccumulatePanel(AttentionTile& tile, int64_t query, const int64_t* own,
                                const float* p, const float* values) {
  if (std::all_of(own, own + kRows, [&](int64_t n) { return n == own[0]; })) {
    AccumulateValues<KeyOrder::kEvenOdd, kRows>(tile, p, values, own[0], query);
    return;
  }
  for (int r = 0; r < kRows; ++r) {
    if (own[r] == 0) continue;
    AccumulateValues<KeyOrder::kEvenOdd, 1>(tile, p + r * kMaxBlockKeys, values, own[r], query + r);
  }
}

// kRows adjacent queries of one path against the path's buffer, of which visible[r] keys are
// visible to query r.
template <int kRows>
HWY_NOINLINE void BufferRows(AttentionTile& tile, int64_t query, const int32_t* visible,
                             const float* panels, const float* values) {
  const F32 d;
  const int64_t most = *std::max_element(visible, visible + kRows);
  const int64_t block_keys = BlockKeys(tile.head_dim);
  for (int64_t begin = 0; begin < most; begin += block_keys) {
    const int64_t padded = RoundUp(std::min(block_keys, most - begin), kPanel);
    for (int64_t key = 0; key < padded; key += kPanel) {
      ScorePanel<kRows>(tile, query, panels + (begin + key) * tile.head_dim, tile.scores + key);
    }
    for (int r = 0; r < kRows; ++r) {
      const int64_t own = std::clamp<int64_t>(visible[r] - begin, 0, padded);
      if (own < padded) MaskScores(d, tile.scores + r * kMaxBlockKeys, own, padded);
    }
    SoftmaxRows<kRows>(tile, query, tile.scores, padded);
    for (int64_t key = 0; key < padded; key += kPanel) {
      int64_t own[kRows];
      for (int r = 0; r < kRows; ++r) {
        own[r] = std::clamp<int64_t>(visible[r] - begin - key, 0, kPanel);
      }
      AccumulatePanel<kRows>(tile, query, own, tile.scores + key,
                             values + (begin + key) * tile.head_dim);
    }
  }
}

// Prefetches the start of a path's buffer, which a step reads once, so that it is not in L1 yet.
HWY_INLINE void PrefetchBuffer(const float* panels, const float* values, int64_t keys,
                               int64_t head_dim) {
  const int64_t n = std::min<int64_t>(keys, 2 * kPanel) * head_dim;
  for (int64_t i = 0; i < n; i += kPanel) hwy::Prefetch(values + i);
  for (int64_t i = 0; i < RoundUp(n, kPanel * head_dim); i += kPanel) hwy::Prefetch(panels + i);
}

void AttendBuffers(const SharedContextAttentionParams& p, const TileRange& range,
                   AttentionTile& tile) {
  int32_t path[kTileQueries];
  int32_t visible[kTileQueries];
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t row = range.Row(i);
    path[i] = p.row_path[row];
    visible[i] = p.row_visible[row];
  }
  const float* all_panels =
      p.buffer_keys + range.kv_head * PackedKeysSize(p.buffer_capacity, p.head_dim);
  const float* all_values =
      p.buffer_values + range.kv_head * ValuesSize(p.buffer_capacity, p.head_dim);
  int64_t i = 0;
  while (i < range.count) {
    int64_t end = i + 1;
    while (end < range.count && path[end] == path[i]) ++end;
    if (end < range.count) {
      const int64_t next = path[end] * p.buffer_path_stride;
      PrefetchBuffer(all_panels + next, all_values + next, visible[end], p.head_dim);
    }
    const float* panels = all_panels + path[i] * p.buffer_path_stride;
    const float* values = all_values + path[i] * p.buffer_path_stride;
    for (; i + 4 <= end; i += 4) BufferRows<4>(tile, i, visible + i, panels, values);
    for (; i + 2 <= end; i += 2) BufferRows<2>(tile, i, visible + i, panels, values);
    if (i < end) BufferRows<1>(tile, i, visible + i, panels, values);
    i = end;
  }
}

void SharedContextAttention(const SharedContextAttentionParams& p) {
  AttentionTile tile;
  TileRange range;
  range.group = p.heads / p.kv_heads;
  const int64_t queries = p.rows * range.group;
  for (range.kv_head = 0; range.kv_head < p.kv_heads; ++range.kv_head) {
    for (range.begin = 0; range.begin < queries; range.begin += kTileQueries) {
      range.count = std::min(kTileQueries, queries - range.begin);
      range.padded = RoundUp(range.count, 4);
      LoadTile(p, range, tile);
      if (p.context_rows > 0) AttendContext(p, range, tile);
      if (p.row_path != nullptr) AttendBuffers(p, range, tile);
      StoreTile(p, range, tile);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(SharedContextAttention)
#endif  // HWY_ONCE
