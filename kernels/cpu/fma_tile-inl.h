// The inner loop of every GEMM on the CPU: a tile of sums stays in registers while the reduction
// index runs.
//
// Compiled once per SIMD target, so it has no ordinary include guard.
#if defined(CHORALE_KERNELS_CPU_FMA_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHORALE_KERNELS_CPU_FMA_TILE_INL_H_
#undef CHORALE_KERNELS_CPU_FMA_TILE_INL_H_
#else
#define CHORALE_KERNELS_CPU_FMA_TILE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

// Arrays of vectors stay in registers only if the loops over them are fully unrolled.
#if defined(__clang__)
#define CHORALE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CHORALE_UNROLL _Pragma("GCC unroll 32")
#endif

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows and vectors of a register tile: as many accumulators as fit into registers next to the
// operands, and at least 8, to hide the latency of the fused multiply-add.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kFmaRows = 8;
#else
inline constexpr int kFmaRows = 4;
#endif
inline constexpr int kFmaVectors = 2;

using F32 = hn::ScalableTag<float>;
using VF32 = hn::Vec<F32>;
inline constexpr int64_t kLanes = HWY_LANES(float);

template <class D, int kRows, int kVectors>
struct FmaTile {
  hn::Vec<D> sum[kRows][kVectors];

  HWY_INLINE void SetZero(D d) {
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CHORALE_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
    }
  }

  HWY_INLINE void Add(const FmaTile& other) {
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CHORALE_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Add(sum[r][v], other.sum[r][v]);
    }
  }

  // Load and store y[r * y_stride + v * lanes].
  HWY_INLINE void Load(D d, const float* y, int64_t y_stride) {
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CHORALE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = hn::LoadU(d, y + r * y_stride + v * static_cast<int64_t>(hn::Lanes(d)));
      }
    }
  }

  HWY_INLINE void Store(D d, float* y, int64_t y_stride) const {
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CHORALE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(sum[r][v], d, y + r * y_stride + v * static_cast<int64_t>(hn::Lanes(d)));
      }
    }
  }

  // sum[r][v] += sum over k of x[r * x_stride + k] * w_v[k * w_stride + lane], k = 0, 1, ..., n-1,
  // one fused multiply-add after the other: the bits of a row depend only on its own numbers.
  HWY_INLINE void MulAdd(D d, const float* HWY_RESTRICT x, int64_t x_stride,
                         const float* HWY_RESTRICT w0, const float* HWY_RESTRICT w1,
                         int64_t w_stride, int64_t n) {
    const float* const w[2] = {w0, w1};
    for (int64_t k = 0; k < n; ++k) {
      hn::Vec<D> weight[kVectors];
      CHORALE_UNROLL
      for (int v = 0; v < kVectors; ++v) weight[v] = hn::LoadU(d, w[v] + k * w_stride);
      CHORALE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const hn::Vec<D> factor = hn::Set(d, x[r * x_stride + k]);
        CHORALE_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          sum[r][v] = hn::MulAdd(factor, weight[v], sum[r][v]);
        }
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
