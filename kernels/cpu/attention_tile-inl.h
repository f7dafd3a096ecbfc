// The state of up to 64 queries that share a K/V head, and the two operations that advance it over
// a block of keys: the online softmax of a query's scores, and the weighted sum of values.
//
// Compiled once per SIMD target, so it has no ordinary include guard.
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

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kTileQueries = 64;
inline constexpr int64_t kMaxHeadDim = 128;
inline constexpr int64_t kMaxBlockKeys = 128;
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The number of keys in a block. The keys and values of a block take 32 KB together and stay in L1
// for all queries. The number, and so the bits of a result, depend only on the head width.
constexpr int64_t BlockKeys(int64_t head_dim) {
  return std::clamp<int64_t>(4096 / head_dim, 32, kMaxBlockKeys);
}

// Scores are in units of log 2: scale * log2(e) is folded into q, and 2^x replaces exp(x).
struct alignas(64) AttentionTile {
  float q[kTileQueries * kMaxHeadDim];     // [query][stride], scaled
  float o[kTileQueries * kMaxHeadDim];     // [query][stride], unnormalised
  float l[kTileQueries * kLanes];          // [query][lane], partial sums per lane
  float m[kTileQueries];                   // [query], largest score so far
  float scores[kFmaRows * kMaxBlockKeys];  // [row of a group][kMaxBlockKeys]
  int64_t head_dim = 0;
  int64_t stride = 0;  // of q and o: head_dim, at least 16 so that whole vectors can be scaled
};

// Raises the maximum of a query to new_m: multiplies (l, o) by 2^(old - new), or by zero if the
// query has processed no key.
HWY_INLINE void RaiseMaximum(F32 d, AttentionTile& tile, int64_t query, float new_m) {
  const float old_m = tile.m[query];
  VF32 factor[1] = {hn::Zero(d)};
  if (old_m != kMinusInfinity) {
    factor[0] = hn::Set(d, old_m - new_m);
    Exp2NonPositive(d, factor);
  }
  float* l = tile.l + query * kLanes;
  hn::Store(hn::Mul(hn::Load(d, l), factor[0]), d, l);
  float* o = tile.o + query * tile.stride;
  for (int64_t i = 0; i < tile.stride; i += kLanes) {
    hn::Store(hn::Mul(hn::Load(d, o + i), factor[0]), d, o + i);
  }
  tile.m[query] = new_m;
}

// Overwrites scores [keys, padded) with -inf: the undefined padding of the last panel, and keys
// that are visible only to an adjacent row.
HWY_INLINE void MaskScores(F32 d, float* scores, int64_t keys, int64_t padded) {
  for (int64_t k = keys / kLanes * kLanes; k < padded; k += kLanes) {
    const auto seen = hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(keys - k, 0)));
    const VF32 masked = hn::IfThenElse(seen, hn::Load(d, scores + k), hn::Set(d, kMinusInfinity));
    hn::Store(masked, d, scores + k);
  }
}

// Online softmax of kRows adjacent queries over `padded` scores each (a multiple of 16; -inf where
// there is no key): updates m and l, rescales o if m grew, and replaces the scores by 2^(s - m).
// While m is -inf, the scores are compared with 0 instead, so that all become 0.
template <int kRows>
HWY_INLINE void SoftmaxRows(AttentionTile& tile, int64_t query, float* scores, int64_t padded) {
  const F32 d;
  VF32 reference[kRows];
  VF32 sum[kRows];
  CHORALE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    VF32 largest = hn::Load(d, scores + r * kMaxBlockKeys);
    for (int64_t k = kLanes; k < padded; k += kLanes) {
      largest = hn::Max(largest, hn::Load(d, scores + r * kMaxBlockKeys + k));
    }
    if (!hn::AllFalse(d, hn::Gt(largest, hn::Set(d, tile.m[query + r])))) {
      RaiseMaximum(d, tile, query + r, hn::GetLane(hn::MaxOfLanes(d, largest)));
    }
    const float m = tile.m[query + r];
    reference[r] = hn::Set(d, m == kMinusInfinity ? 0.0f : m);
    sum[r] = hn::Load(d, tile.l + (query + r) * kLanes);
  }
  for (int64_t k = 0; k < padded; k += kLanes) {
    VF32 p[kRows];
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      p[r] = hn::Sub(hn::Load(d, scores + r * kMaxBlockKeys + k), reference[r]);
    }
    Exp2NonPositive(d, p);
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sum[r] = hn::Add(sum[r], p[r]);
      hn::Store(p[r], d, scores + r * kMaxBlockKeys + k);
    }
  }
  CHORALE_UNROLL
  for (int r = 0; r < kRows; ++r) hn::Store(sum[r], d, tile.l + (query + r) * kLanes);
}

// o[row][...] += sum over keys of p[row][key] * values[key][...] for kRows rows and a stripe of
// kVectors vectors, key by key in their order.
template <class D, int kRows, int kVectors>
HWY_INLINE void AccumulateStripe(D d, const float* p, const float* values, int64_t head_dim,
                                 int64_t keys, float* o, int64_t o_stride) {
  const int64_t lanes = hn::Lanes(d);
  // Each key block is summed separately, which bounds rounding errors over many blocks.
  FmaTile<D, kRows, kVectors> block;
  block.SetZero(d);
  block.MulAdd(d, p, kMaxBlockKeys, values, values + lanes, head_dim, keys);
  FmaTile<D, kRows, kVectors> total;
  total.Load(d, o, o_stride);
  total.Add(block);
  total.Store(d, o, o_stride);
}

// Like AccumulateStripe, for the keys of one panel, with separate sums of even and odd keys: with
// few rows, the latency of a single sum per row would be the bottleneck.
template <class D, int kRows, int kVectors>
HWY_INLINE void AccumulatePanelStripe(D d, const float* p, const float* values, int64_t head_dim,
                                      int64_t keys, float* o, int64_t o_stride) {
  const int64_t lanes = hn::Lanes(d);
  FmaTile<D, kRows, kVectors> even;
  FmaTile<D, kRows, kVectors> odd;
  even.Load(d, o, o_stride);
  odd.SetZero(d);
  int64_t k = 0;
  for (; k + 2 <= keys; k += 2) {
    const float* v = values + k * head_dim;
    even.MulAdd(d, p + k, kMaxBlockKeys, v, v + lanes, head_dim, 1);
    v += head_dim;
    odd.MulAdd(d, p + k + 1, kMaxBlockKeys, v, v + lanes, head_dim, 1);
  }
  if (k < keys) {
    const float* v = values + k * head_dim;
    even.MulAdd(d, p + k, kMaxBlockKeys, v, v + lanes, head_dim, 1);
  }
  even.Add(odd);
  even.Store(d, o, o_stride);
}

enum class KeyOrder { kOneSum, kEvenOdd };

template <KeyOrder kOrder, class D, int kRows, int kVectors>
HWY_INLINE void AccumulateStripeIn(D d, const float* p, const float* values, int64_t head_dim,
                                   int64_t keys, float* o, int64_t o_stride) {
  if constexpr (kOrder == KeyOrder::kOneSum) {
    AccumulateStripe<D, kRows, kVectors>(d, p, values, head_dim, keys, o, o_stride);
  } else {
    AccumulatePanelStripe<D, kRows, kVectors>(d, p, values, head_dim, keys, o, o_stride);
  }
}

// AccumulateStripe or AccumulatePanelStripe over the full head width. Reads exactly `keys` values.
template <KeyOrder kOrder, int kRows>
HWY_INLINE void AccumulateValues(AttentionTile& tile, const float* p, const float* values,
                                 int64_t keys, int64_t query) {
  constexpr int64_t kStripe = kFmaVectors * kLanes;
  const F32 d;
  float* o = tile.o + query * tile.stride;
  if (tile.head_dim % kStripe == 0) {
    for (int64_t i = 0; i < tile.head_dim; i += kStripe) {
      AccumulateStripeIn<kOrder, F32, kRows, kFmaVectors>(d, p, values + i, tile.head_dim, keys,
                                                          o + i, tile.stride);
    }
    return;
  }
  // Reached only with vectors of 8 and 16 lanes, and heads as wide as one vector or half of one.
  if (tile.head_dim == kLanes) {
    AccumulateStripeIn<kOrder, F32, kRows, 1>(d, p, values, tile.head_dim, keys, o, tile.stride);
  } else {
    const hn::CappedTag<float, 8> half;
    AccumulateStripeIn<kOrder, decltype(half), kRows, 1>(half, p, values, tile.head_dim, keys, o,
                                                         tile.stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
