#include <algorithm>
#include <cmath>

#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {

void MixtureHead(const MixtureHeadParams& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const double* raw = p.raw + r * p.raw_stride;
    double largest = -HUGE_VAL;
    for (int64_t j = 0; j < p.components; ++j) {
      largest = std::max(largest, raw[3 * j + 2] + p.weight_bias[j]);
    }
    double sum = 0;
    for (int64_t j = 0; j < p.components; ++j) {
      sum += std::exp(raw[3 * j + 2] + p.weight_bias[j] - largest);
    }
    for (int64_t j = 0; j < p.components; ++j) {
      const int64_t at = r * p.components + j;
      p.mean[at] = raw[3 * j] + p.mean_bias[j];
      const double x = raw[3 * j + 1] + p.std_bias[j];
      // Beyond 40, exp(-x) is lost against x even in float64.
      const double softplus = x > 40 ? x : std::log1p(std::exp(x));
      p.std[at] = std::min<double>(softplus, p.std_max) + p.std_min;
      p.log_weight[at] = raw[3 * j + 2] + p.weight_bias[j] - largest - std::log(sum);
    }
  }
}

}  // namespace chorale::kernels::reference
