// The queries that share a K/V head, divided into tiles.
//
// Compiled once per SIMD target, so it has no ordinary include guard.
#if defined(CHORALE_KERNELS_CPU_QUERY_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHORALE_KERNELS_CPU_QUERY_TILE_INL_H_
#undef CHORALE_KERNELS_CPU_QUERY_TILE_INL_H_
#else
#define CHORALE_KERNELS_CPU_QUERY_TILE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/fma_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The queries of a tile. The queries of K/V head g are numbered row * group + j for the query heads
// g * group + j, so that all queries of a path are adjacent.
struct TileRange {
  int64_t kv_head = 0;
  int64_t group = 1;   // query heads per K/V head
  int64_t begin = 0;   // first query
  int64_t count = 0;   // 1..kTileQueries
  int64_t padded = 0;  // count, rounded up to full groups of queries

  int64_t Row(int64_t query) const { return (begin + query) / group; }
  int64_t Head(int64_t query) const { return kv_head * group + (begin + query) % group; }
};

// to[0..n) = from[0..n) * factor.
HWY_INLINE void CopyScaled(const float* from, float factor, int64_t n, float* to) {
  const F32 d;
  if (n % kLanes == 0) {
    const VF32 scale = hn::Set(d, factor);
    for (int64_t i = 0; i < n; i += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, from + i), scale), d, to + i);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] * factor;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
