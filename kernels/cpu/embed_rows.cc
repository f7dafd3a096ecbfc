#include "kernels/ops/embed_rows.h"

#include <cstdint>

#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embed_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void EmbedRows(const EmbedRowsParams& p) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t r = 0; r < p.rows; ++r) {
    const float* encoding = p.encodings + p.encoding[r] * p.width;
    const float* offset = p.offsets + p.offset[r] * p.width;
    float* out = p.out + r * p.width;
    int64_t i = 0;
    for (; i + lanes <= p.width; i += lanes) {
      auto sum = hn::Add(hn::LoadU(d, encoding + i), hn::LoadU(d, offset + i));
      if (p.y != nullptr) sum = hn::MulAdd(hn::Set(d, p.y[r]), hn::LoadU(d, p.y_weight + i), sum);
      hn::StoreU(sum, d, out + i);
    }
    for (; i < p.width; ++i) {
      out[i] = encoding[i] + offset[i] + (p.y != nullptr ? p.y[r] * p.y_weight[i] : 0.0f);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(EmbedRows)
#endif  // HWY_ONCE
