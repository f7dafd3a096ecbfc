// The Gaussian mixture of a query row: its parameters, density, draws, moments and quantiles.
//
// From the raw head output [M, 3] = (mean, std, weight) of a row, in the model's target units:
//   mean_j = raw_mean_j + mean_bias_j
//   std_j  = min(softplus(raw_std_j + std_bias_j), std_max) + std_min
//   log w  = log_softmax(raw_weight + weight_bias)
#ifndef CHORALE_KERNELS_OPS_MIXTURE_HEAD_H_
#define CHORALE_KERNELS_OPS_MIXTURE_HEAD_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

struct MixtureHeadParams {
  const double* raw = nullptr;         // [rows, M, 3], row stride raw_stride
  const float* mean_bias = nullptr;    // [M]
  const float* std_bias = nullptr;     // [M]
  const float* weight_bias = nullptr;  // [M]
  double* mean = nullptr;              // [rows, M]
  double* std = nullptr;               // [rows, M]
  double* log_weight = nullptr;        // [rows, M], natural log, normalised
  int64_t rows = 0;
  int64_t components = 0;  // M
  int64_t raw_stride = 0;
  float std_min = 0;
  float std_max = 0;
};

absl::Status ValidateMixtureHead(const MixtureHeadParams& params);

// REQUIRES: ValidateMixtureHead(params).ok().
void MixtureHead(const MixtureHeadParams& params);

// One row's mixture, [M] each, host memory. The functions below compute in float64.
struct MixtureView {
  const double* mean = nullptr;
  const double* std = nullptr;
  const double* log_weight = nullptr;
  int64_t components = 0;
};

// log sum_j w_j N(y; mean_j, std_j), natural log.
double MixtureLogDensity(const MixtureView& mixture, double y);

// Chooses a component by the inverse CDF over the components in the order of their means (of equal
// means in the order of j): the first whose weight, added to those before it and divided by the sum
// of all, exceeds `uniform`. Returns mean_j + std_j * normal. A greater `uniform` never chooses a
// component with a smaller mean, and a greater `normal` never gives a smaller value. 0 <= uniform
// < 1.
double MixtureDraw(const MixtureView& mixture, double uniform, double normal);

double MixtureMean(const MixtureView& mixture);

// Standard deviation of the mixture: sqrt(sum_j w_j (std_j^2 + mean_j^2) - mean^2), computed
// around the mean so that it does not cancel.
double MixtureStd(const MixtureView& mixture);

double MixtureCdf(const MixtureView& mixture, double y);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_MIXTURE_HEAD_H_
