#include "kernels/ops/precise_linear.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"
#include "kernels/ops/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/precise_linear.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/fma_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

using F64 = hn::ScalableTag<double>;
using F32Half = hn::Rebind<float, F64>;  // as many float32 lanes as float64 lanes
inline constexpr int64_t kF64Lanes = HWY_LANES(double);
inline constexpr int kPanelVectors = static_cast<int>(kPanel / kF64Lanes);

// One panel of columns for kRows rows. On narrow targets the accumulators of one row fill the
// registers.
template <int kRows>
HWY_INLINE void PreciseTile(const PreciseLinearParams& p, int64_t row, int64_t first) {
  const F64 d;
  const F32Half half;
  const float* weight = p.weight + first * p.in;
  hn::Vec<F64> sum[kRows][kPanelVectors];
  CHORALE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    CHORALE_UNROLL
    for (int v = 0; v < kPanelVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t i = 0; i < p.in; ++i) {
    hn::Vec<F64> w[kPanelVectors];
    CHORALE_UNROLL
    for (int v = 0; v < kPanelVectors; ++v) {
      w[v] = hn::PromoteTo(d, hn::LoadU(half, weight + i * kPanel + v * kF64Lanes));
    }
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, static_cast<double>(p.x[(row + r) * p.x_stride + i]));
      CHORALE_UNROLL
      for (int v = 0; v < kPanelVectors; ++v) sum[r][v] = hn::MulAdd(factor, w[v], sum[r][v]);
    }
  }
  const int64_t columns = std::min(kPanel, p.out - first);
  HWY_ALIGN double all[kPanel];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kPanelVectors; ++v) hn::Store(sum[r][v], d, all + v * kF64Lanes);
    double* y = p.y + (row + r) * p.y_stride + first;
    for (int64_t c = 0; c < columns; ++c) y[c] = all[c] + p.bias[first + c];
  }
}

void PreciseLinear(const PreciseLinearParams& p) {
  constexpr int kRows = kPanelVectors <= 4 ? 4 : 1;
  for (int64_t first = 0; first < p.out; first += kPanel) {
    int64_t row = 0;
    for (; row + kRows <= p.rows; row += kRows) PreciseTile<kRows>(p, row, first);
    for (; row < p.rows; ++row) PreciseTile<1>(p, row, first);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(PreciseLinear)
#endif  // HWY_ONCE
