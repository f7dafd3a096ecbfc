#include <cmath>
#include <numbers>

#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {

// 1 + erf(z) = erfc(-z), which keeps its digits where erf(z) is close to -1.
void PreciseGelu(const PreciseGeluParams& p) {
  for (int64_t i = 0; i < p.n; ++i) {
    const double x = p.x[i];
    const bool limit = x == -HUGE_VAL;
    p.y[i] = limit ? -0.0f : static_cast<float>(x * (std::erfc(-x / std::numbers::sqrt2) / 2));
  }
}

}  // namespace chorale::kernels::reference
