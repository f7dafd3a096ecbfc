// The working state of up to 64 query rows that share one K/V head, and the two steps that advance
// it over a block of keys: the online softmax of a row's scores, and the weighted sum of values.
//
// Compiled once per SIMD target, hence no ordinary include guard.
#if defined(CHORALE_KERNELS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHORALE_KERNELS_CPU_ATTENTION_TILE_INL_H_
#undef CHORALE_KERNELS_CPU_ATTENTION_TILE_INL_H_
#else
#define CHORALE_KERNELS_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/cpu/elementwise-inl.h"
#include "kernels/cpu/fma_tile-inl.h"
#include "kernels/layout.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kTileQueries = 64;
inline constexpr int64_t kMaxHeadDim = 128;
inline constexpr int64_t kMaxBlockKeys = 128;
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Keys of one block: its keys and values together take 32 KB, so that they stay in the first-level
// cache while the query rows go past. A function of the head width alone, so that results are too.
constexpr int64_t BlockKeys(int64_t head_dim) {
  return std::clamp<int64_t>(4096 / head_dim, 32, kMaxBlockKeys);
}

// Scores are in units of log 2: scale * log2(e) is folded into q, and 2^x replaces exp(x).
struct alignas(64) AttentionTile {
  float q[kTileQueries * kMaxHeadDim];      // [query][stride], scaled
  float o[kTileQueries * kMaxHeadDim];      // [query][stride], unnormalised
  float l[kTileQueries * kLanes];           // [query][lane], partial sums per lane
  float m[kTileQueries];                    // [query], largest score so far
  float scores[kTileRows * kMaxBlockKeys];  // [row of a group][kMaxBlockKeys]
  int64_t head_dim = 0;
  int64_t stride = 0;  // of q and o: head_dim, at least 16 so that whole vectors can be scaled
};

// Multiplies (l, o) of one query by 2^(old_m - new_m); zero for a query that has seen no key.
HWY_INLINE void RescaleQuery(F32 d, AttentionTile& tile, int64_t query, float old_m, float new_m) {
  VF32 factor = hn::Zero(d);
  if (old_m != kMinusInfinity) factor = Exp2NonPositive(d, hn::Set(d, old_m - new_m));
  float* l = tile.l + query * kLanes;
  hn::Store(hn::Mul(hn::Load(d, l), factor), d, l);
  float* o = tile.o + query * tile.stride;
  for (int64_t i = 0; i < tile.stride; i += kLanes) {
    hn::Store(hn::Mul(hn::Load(d, o + i), factor), d, o + i);
  }
}

// Online softmax of one query over `padded` scores (a multiple of 16; -inf where there is no key):
// updates m and l, rescales o if m grew, and turns the scores into exp(s - m) in place.
// -inf is safe: with m still -inf the scores are compared with 0 instead and all become 0.
HWY_INLINE void SoftmaxQuery(F32 d, AttentionTile& tile, int64_t query, float* scores,
                             int64_t padded) {
  VF32 largest = hn::Load(d, scores);
  for (int64_t k = kLanes; k < padded; k += kLanes) {
    largest = hn::Max(largest, hn::Load(d, scores + k));
  }
  const float old_m = tile.m[query];
  if (!hn::AllFalse(d, hn::Gt(largest, hn::Set(d, old_m)))) {
    const float new_m = hn::GetLane(hn::MaxOfLanes(d, largest));
    RescaleQuery(d, tile, query, old_m, new_m);
    tile.m[query] = new_m;
  }
  const float m = tile.m[query];
  const VF32 reference = hn::Set(d, m == kMinusInfinity ? 0.0f : m);
  VF32 sum = hn::Load(d, tile.l + query * kLanes);
  for (int64_t k = 0; k < padded; k += kLanes) {
    const VF32 p = Exp2NonPositive(d, hn::Sub(hn::Load(d, scores + k), reference));
    sum = hn::Add(sum, p);
    hn::Store(p, d, scores + k);
  }
  hn::Store(sum, d, tile.l + query * kLanes);
}

// o[row][...] += sum over keys of p[row][key] * values[key][...] for kRows rows and a stripe of
// kVectors vectors, key by key in their order.
template <class D, int kRows, int kVectors>
HWY_INLINE void AccumulateStripe(D d, const float* p, const float* values, int64_t head_dim,
                                 int64_t keys, float* o, int64_t o_stride) {
  const int64_t lanes = hn::Lanes(d);
  FmaTile<D, kRows, kVectors> tile;
  CHORALE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    CHORALE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      tile.sum[r][v] = hn::LoadU(d, o + r * o_stride + v * lanes);
    }
  }
  tile.MulAdd(d, p, kMaxBlockKeys, values, values + lanes, head_dim, keys);
  CHORALE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    CHORALE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(tile.sum[r][v], d, o + r * o_stride + v * lanes);
    }
  }
}

// The same over the whole head width. Exactly `keys` values are read.
template <int kRows>
HWY_INLINE void AccumulateValues(AttentionTile& tile, const float* p, const float* values,
                                 int64_t keys, int64_t query) {
  constexpr int64_t kStripe = kTileVectors * kLanes;
  const F32 d;
  float* o = tile.o + query * tile.stride;
  if (tile.head_dim % kStripe == 0) {
    for (int64_t i = 0; i < tile.head_dim; i += kStripe) {
      AccumulateStripe<F32, kRows, kTileVectors>(d, p, values + i, tile.head_dim, keys, o + i,
                                                 tile.stride);
    }
    return;
  }
  // Only vectors of 8 and 16 lanes come here, with heads as wide as one vector or half of one.
  if (tile.head_dim == kLanes) {
    AccumulateStripe<F32, kRows, 1>(d, p, values, tile.head_dim, keys, o, tile.stride);
  } else {
    const hn::CappedTag<float, 8> half;
    AccumulateStripe<decltype(half), kRows, 1>(half, p, values, tile.head_dim, keys, o,
                                               tile.stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
