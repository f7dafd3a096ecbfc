// Processes a few thousand numbers per step, in float64 with the C library.
#include "kernels/ops/mixture_head.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace chorale::kernels {
namespace {

// log(1 + exp(x)) without overflow.
double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

void MixtureHead(const MixtureHeadParams& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const double* raw = p.raw + r * p.raw_stride;
    double* mean = p.mean + r * p.components;
    double* std = p.std + r * p.components;
    double* log_weight = p.log_weight + r * p.components;
    const auto logit = [&](int64_t j) { return raw[3 * j + 2] + p.weight_bias[j]; };
    double largest = logit(0);
    for (int64_t j = 1; j < p.components; ++j) largest = std::max(largest, logit(j));
    double sum = 0;
    for (int64_t j = 0; j < p.components; ++j) sum += std::exp(logit(j) - largest);
    const double normaliser = largest + std::log(sum);
    for (int64_t j = 0; j < p.components; ++j) {
      mean[j] = raw[3 * j] + p.mean_bias[j];
      const double spread = Softplus(raw[3 * j + 1] + p.std_bias[j]);
      std[j] = std::min<double>(spread, p.std_max) + p.std_min;
      log_weight[j] = logit(j) - normaliser;
    }
  }
}

}  // namespace chorale::kernels
