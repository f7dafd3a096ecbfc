#include <cmath>
#include <vector>

#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {

void LayerNorm(const LayerNormParams& p) {
  std::vector<double> z(p.width);
  for (int64_t r = 0; r < p.rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < p.width; ++i) {
      const int64_t at = r * p.width + i;
      z[i] = static_cast<double>(p.x[at]) + (p.residual != nullptr ? p.residual[at] : 0.0);
      sum += z[i];
    }
    const double mean = sum / p.width;
    double squares = 0;
    for (int64_t i = 0; i < p.width; ++i) squares += (z[i] - mean) * (z[i] - mean);
    const double deviation = std::sqrt(squares / p.width + p.epsilon);
    for (int64_t i = 0; i < p.width; ++i) {
      p.y[r * p.width + i] = static_cast<float>((z[i] - mean) / deviation * p.gamma[i] + p.beta[i]);
    }
  }
}

}  // namespace chorale::kernels::reference
