#include "kernels/ops/linear.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"
#include "kernels/ops/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/elementwise-inl.h"
#include "kernels/cpu/fma_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

// Two vectors: two panels on AVX-512, one on AVX2, a part of one on narrower targets.
inline constexpr int64_t kColumns = kFmaVectors * kLanes;

// Rows per pass over all weights: their activations stay in L2.
inline constexpr int64_t kRowsPerPass = 96;

// Long sums are sums of blocks of this many terms. Rounding errors then grow with the length of a
// block plus the number of blocks, not with their product. Over twelve layers this halves the error
// of a prediction, at no measurable cost.
inline constexpr int64_t kSumBlock = 16;

// A group of kColumns output columns: its weights, its bias, and the number of existing columns.
struct ColumnGroup {
  const float* weight[kFmaVectors];
  float bias[kColumns];
  int64_t first = 0;
  int64_t count = 0;  // columns below `out`
};

HWY_INLINE ColumnGroup MakeColumnGroup(const LinearParams& p, int64_t first) {
  ColumnGroup group;
  group.first = first;
  group.count = std::min(kColumns, p.out - first);
  for (int v = 0; v < kFmaVectors; ++v) {
    // A second vector that is entirely beyond the last panel repeats the first vector and is not
    // stored.
    const int64_t column = v * kLanes < group.count ? first + v * kLanes : first;
    group.weight[v] = p.weight + (column / kPanel) * p.in * kPanel + column % kPanel;
  }
  for (int64_t c = 0; c < kColumns; ++c) {
    group.bias[c] = p.bias != nullptr && c < group.count ? p.bias[first + c] : 0.0f;
  }
  return group;
}

HWY_INLINE void StoreColumns(F32 d, VF32 value, int64_t count, float* y) {
  if (count >= kLanes) {
    hn::StoreU(value, d, y);
    return;
  }
  HWY_ALIGN float all[kLanes];
  hn::Store(value, d, all);
  for (int64_t c = 0; c < count; ++c) y[c] = all[c];
}

// Epilogue of one or two rows: bias, activation, store. Up to four vectors in lockstep.
template <int kRows, int kVectors>
HWY_INLINE void FinishRows(const LinearParams& p, const ColumnGroup& group, int64_t row,
                           const VF32 (*sum)[kVectors]) {
  const F32 d;
  VF32 value[kRows * kVectors];
  CHORALE_UNROLL
  for (int i = 0; i < kRows * kVectors; ++i) {
    const VF32 bias = hn::LoadU(d, group.bias + (i % kVectors) * kLanes);
    value[i] = hn::Add(sum[i / kVectors][i % kVectors], bias);
  }
  if (p.activation == Activation::kGelu) Gelu(d, value);
  CHORALE_UNROLL
  for (int i = 0; i < kRows * kVectors; ++i) {
    const int64_t column = (i % kVectors) * kLanes;
    StoreColumns(d, value[i], group.count - column,
                 p.y + (row + i / kVectors) * p.y_stride + group.first + column);
  }
}

template <int kRows, int kVectors>
HWY_INLINE void LinearTile(const LinearParams& p, const ColumnGroup& group, int64_t row) {
  const F32 d;
  FmaTile<F32, kRows, kVectors> tile;
  tile.SetZero(d);
  for (int64_t begin = 0; begin < p.in; begin += kSumBlock) {
    FmaTile<F32, kRows, kVectors> block;
    block.SetZero(d);
    block.MulAdd(d, p.x + row * p.x_stride + begin, p.x_stride, group.weight[0] + begin * kPanel,
                 group.weight[1] + begin * kPanel, kPanel, std::min(kSumBlock, p.in - begin));
    tile.Add(block);
  }
  constexpr int kTogether = kRows < 2 ? 1 : 2;
  CHORALE_UNROLL
  for (int r = 0; r < kRows; r += kTogether) {
    FinishRows<kTogether, kVectors>(p, group, row + r, tile.sum + r);
  }
}

template <int kVectors>
HWY_NOINLINE void LinearColumns(const LinearParams& p, const ColumnGroup& group, int64_t begin,
                                int64_t end) {
  int64_t row = begin;
  for (; row + kFmaRows <= end; row += kFmaRows) LinearTile<kFmaRows, kVectors>(p, group, row);
  if (kFmaRows > 4 && row + 4 <= end) {
    LinearTile<4, kVectors>(p, group, row);
    row += 4;
  }
  for (; row + 2 <= end; row += 2) LinearTile<2, kVectors>(p, group, row);
  if (row < end) LinearTile<1, kVectors>(p, group, row);
}

void Linear(const LinearParams& p) {
  for (int64_t begin = 0; begin < p.rows; begin += kRowsPerPass) {
    const int64_t end = std::min(p.rows, begin + kRowsPerPass);
    // A column group's weights stay in L1 for all rows.
    for (int64_t column = 0; column < p.out; column += kColumns) {
      const ColumnGroup group = MakeColumnGroup(p, column);
      if (group.count > kLanes) {
        LinearColumns<2>(p, group, begin, end);
      } else {
        LinearColumns<1>(p, group, begin, end);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(Linear)
#endif  // HWY_ONCE
