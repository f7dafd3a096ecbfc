#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {

void PreciseLinear(const PreciseLinearParams& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t o = 0; o < p.out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < p.in; ++i) {
        const float weight = p.weight[((o / kPanel) * p.in + i) * kPanel + o % kPanel];
        sum += static_cast<double>(p.x[r * p.x_stride + i]) * weight;
      }
      p.y[r * p.y_stride + o] = sum + p.bias[o];
    }
  }
}

}  // namespace chorale::kernels::reference
