#include <cmath>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {

void Linear(const LinearParams& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t o = 0; o < p.out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < p.in; ++i) {
        const float weight = p.weight[((o / kPanel) * p.in + i) * kPanel + o % kPanel];
        sum += static_cast<double>(p.x[r * p.x_stride + i]) * weight;
      }
      if (p.bias != nullptr) sum += p.bias[o];
      // x/2 (1 + erf(x / sqrt 2)), written with erfc so that it does not cancel for negative x.
      if (p.activation == Activation::kGelu) sum *= 0.5 * std::erfc(-sum / std::sqrt(2.0));
      p.y[r * p.y_stride + o] = static_cast<float>(sum);
    }
  }
}

}  // namespace chorale::kernels::reference
