// Order of work, for one K/V head and a tile of up to 64 query rows at a time:
//
//   for each block of context keys                 keys and values of a block stay in L1
//     for each group of kTileRows query rows       their scores stay in registers, then in L1
//       scores = q keys^T; online softmax; o += softmax values
//   for each path of the tile                      its rows are neighbours
//     the same over the visible keys of the path's buffer, into the same (m, l, o)
//   out = o / l
//
// Every sum runs over keys (and over the head width) in one fixed order per query row, whatever
// the other rows of the tile are.
#include "kernels/shared_context_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/enabled_targets.h"
#include "kernels/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/shared_context_attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention_tile-inl.h"
#include "kernels/cpu/elementwise-inl.h"
#include "kernels/cpu/fma_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

// Which query rows a tile holds. Query rows of K/V head g are numbered row * group + j for the
// query heads g * group + j, so that all query rows of a path are neighbours.
struct TileRange {
  int64_t kv_head = 0;
  int64_t group = 1;   // query heads per K/V head
  int64_t begin = 0;   // first query row
  int64_t count = 0;   // 1..kTileQueries
  int64_t padded = 0;  // count, rounded up to whole groups of rows

  int64_t Row(int64_t query) const { return (begin + query) / group; }
  int64_t Head(int64_t query) const { return kv_head * group + (begin + query) % group; }
};

void LoadTile(const SharedContextAttentionParams& p, const TileRange& range, AttentionTile& tile) {
  tile.head_dim = p.head_dim;
  tile.stride = std::max(p.head_dim, kPanel);
  const float scale = static_cast<float>(p.scale * 1.4426950408889634);
  for (int64_t i = 0; i < range.padded; ++i) {
    float* q = tile.q + i * tile.stride;
    if (i < range.count) {
      const float* from = p.q + range.Row(i) * p.q_stride + range.Head(i) * p.head_dim;
      for (int64_t k = 0; k < p.head_dim; ++k) q[k] = from[k] * scale;
    } else {
      // Rows that fill up the last group: finite, computed, never stored.
      std::fill_n(q, p.head_dim, 0.0f);
    }
    std::fill_n(tile.o + i * tile.stride, tile.stride, 0.0f);
    std::fill_n(tile.l + i * kLanes, kLanes, 0.0f);
    tile.m[i] = kMinusInfinity;
  }
}

void StoreTile(const SharedContextAttentionParams& p, const TileRange& range,
               const AttentionTile& tile) {
  const F32 d;
  for (int64_t i = 0; i < range.count; ++i) {
    const float l = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, tile.l + i * kLanes)));
    float* to = p.out + range.Row(i) * p.out_stride + range.Head(i) * p.head_dim;
    const float* o = tile.o + i * tile.stride;
    const bool empty = tile.m[i] == kMinusInfinity;
    const float inverse = empty ? 0.0f : 1.0f / l;
    for (int64_t k = 0; k < p.head_dim; ++k) to[k] = o[k] * inverse;
    if (p.lse != nullptr) {
      constexpr double kLn2 = 0.69314718055994530942;
      p.lse[range.Row(i) * p.heads + range.Head(i)] =
          empty ? kEmptyLse
                : static_cast<float>((tile.m[i] + std::log2(static_cast<double>(l))) * kLn2);
    }
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
  CHORALE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    CHORALE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(sums.sum[r][v], d, scores + r * kMaxBlockKeys + v * kLanes);
    }
  }
}

// Scores against all panels that hold `keys` keys.
template <int kRows>
HWY_INLINE void ScoreBlock(AttentionTile& tile, int64_t query, const float* panels, int64_t keys) {
  const int64_t padded = RoundUp(keys, kPanel);
  const auto at = [&](int64_t key) {
    return panels + (key / kPanel) * tile.head_dim * kPanel + key % kPanel;
  };
  int64_t key = 0;
  for (; key + kTileVectors * kLanes <= padded; key += kTileVectors * kLanes) {
    ScoreVectors<kRows, kTileVectors>(tile, query, at(key), at(key + kLanes), tile.scores + key);
  }
  if (key < padded) ScoreVectors<kRows, 1>(tile, query, at(key), at(key), tile.scores + key);
}

// What the layout pads the last panel with must not count, whatever it is.
HWY_INLINE void MaskScores(float* scores, int64_t keys, int64_t padded) {
  for (int64_t k = keys; k < padded; ++k) scores[k] = kMinusInfinity;
}

// One block of context keys for kRows queries.
template <int kRows>
HWY_NOINLINE void ContextBlock(AttentionTile& tile, int64_t query, const float* panels,
                               const float* values, int64_t keys) {
  const F32 d;
  const int64_t padded = RoundUp(keys, kPanel);
  ScoreBlock<kRows>(tile, query, panels, keys);
  for (int r = 0; r < kRows; ++r) {
    float* scores = tile.scores + r * kMaxBlockKeys;
    MaskScores(scores, keys, padded);
    SoftmaxQuery(d, tile, query + r, scores, padded);
  }
  AccumulateValues<kRows>(tile, tile.scores, values, keys, query);
}

void AttendContext(const SharedContextAttentionParams& p, const TileRange& range,
                   AttentionTile& tile) {
  const float* keys = p.context_keys + range.kv_head * PackedKeysSize(p.context_rows, p.head_dim);
  const float* values = p.context_values + range.kv_head * ValuesSize(p.context_rows, p.head_dim);
  const int64_t block_keys = BlockKeys(p.head_dim);
  for (int64_t begin = 0; begin < p.context_rows; begin += block_keys) {
    const int64_t count = std::min(block_keys, p.context_rows - begin);
    const float* block = keys + begin * p.head_dim;  // begin is a multiple of kPanel
    const float* block_values = values + begin * p.head_dim;
    int64_t query = 0;
    for (; query + kTileRows <= range.padded; query += kTileRows) {
      ContextBlock<kTileRows>(tile, query, block, block_values, count);
    }
    if (query < range.padded) ContextBlock<4>(tile, query, block, block_values, count);
  }
}

// kRows neighbouring queries of one path against the path's buffer; visible[r] keys for query r.
// Values up to the smallest count are read once for all rows, the few beyond it row by row: a row
// never touches a key that it must not see.
template <int kRows>
HWY_NOINLINE void BufferRows(AttentionTile& tile, int64_t query, const int32_t* visible,
                             const float* panels, const float* values) {
  const F32 d;
  const int64_t least = *std::min_element(visible, visible + kRows);
  const int64_t most = *std::max_element(visible, visible + kRows);
  const int64_t block_keys = BlockKeys(tile.head_dim);
  for (int64_t begin = 0; begin < most; begin += block_keys) {
    const int64_t count = std::min(block_keys, most - begin);
    ScoreBlock<kRows>(tile, query, panels + begin * tile.head_dim, count);
    const float* block_values = values + begin * tile.head_dim;
    const int64_t joint = std::clamp<int64_t>(least - begin, 0, count);
    for (int r = 0; r < kRows; ++r) {
      const int64_t own = std::clamp<int64_t>(visible[r] - begin, 0, count);
      if (own == 0) continue;
      float* scores = tile.scores + r * kMaxBlockKeys;
      const int64_t padded = RoundUp(own, kPanel);
      MaskScores(scores, own, padded);
      SoftmaxQuery(d, tile, query + r, scores, padded);
    }
    if (joint > 0) AccumulateValues<kRows>(tile, tile.scores, block_values, joint, query);
    for (int r = 0; r < kRows; ++r) {
      const int64_t own = std::clamp<int64_t>(visible[r] - begin, 0, count);
      if (own <= joint) continue;
      AccumulateValues<1>(tile, tile.scores + r * kMaxBlockKeys + joint,
                          block_values + joint * tile.head_dim, own - joint, query + r);
    }
  }
}

void AttendBuffers(const SharedContextAttentionParams& p, const TileRange& range,
                   AttentionTile& tile) {
  int32_t visible[kTileQueries];
  for (int64_t i = 0; i < range.count; ++i) visible[i] = p.row_visible[range.Row(i)];
  const int64_t keys_offset = range.kv_head * PackedKeysSize(p.buffer_capacity, p.head_dim);
  const int64_t values_offset = range.kv_head * ValuesSize(p.buffer_capacity, p.head_dim);
  int64_t i = 0;
  while (i < range.count) {
    const int64_t path = p.row_path[range.Row(i)];
    int64_t end = i + 1;
    while (end < range.count && p.row_path[range.Row(end)] == path) ++end;
    const float* panels = p.buffer_keys + path * p.buffer_path_stride + keys_offset;
    const float* values = p.buffer_values + path * p.buffer_path_stride + values_offset;
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
namespace chorale::kernels {
namespace {
HWY_EXPORT(SharedContextAttention);
}  // namespace

void SharedContextAttention(const SharedContextAttentionParams& params) {
  HWY_DYNAMIC_DISPATCH(SharedContextAttention)(params);
}

}  // namespace chorale::kernels
#endif  // HWY_ONCE
