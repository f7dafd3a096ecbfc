// The mixture of one row, by one warp: its parameters in float64, a draw from it, and its
// log-density (kernels/ops/mixture_head.h).
#ifndef CHORALE_KERNELS_CUDA_HEAD_ROW_MIXTURE_CUH_
#define CHORALE_KERNELS_CUDA_HEAD_ROW_MIXTURE_CUH_

#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {

// One row's mixture in shared memory, [M] each.
struct RowMixture {
  double* mean;
  double* std;
  double* log_scale;  // log(std sqrt(2 pi))
  double* log_weight;
  double* weight;  // not normalised; later reused for the terms of a log-density
};

__device__ __forceinline__ void ComputeComponents(const HeadParams& p, const float* raw,
                                                  const float* biases, const RowMixture& mixture) {
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
#pragma unroll 1
  for (int j = LaneIndex(); j < p.shape.components; j += kWarpSize) {
    mixture.mean[j] = static_cast<double>(raw[3 * j]) + biases[j];
    const double s = static_cast<double>(raw[3 * j + 1]) + biases[p.shape.components + j];
    // Beyond 40, exp(-s) is lost against s.
    const double softplus = s > 40 ? s : log1p(exp(s));
    const double std = (softplus < p.std_max ? softplus : p.std_max) + p.std_min;
    mixture.std[j] = std;
    mixture.log_scale[j] = log(std) + kHalfLogTwoPi;
  }
}

// Returns the sum of the weights, by which they are normalised.
__device__ __forceinline__ double ComputeWeights(const HeadParams& p, const float* raw,
                                                 const float* biases, const RowMixture& mixture) {
  const int lane = LaneIndex();
  double largest = -INFINITY;
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize) {
    const double w = static_cast<double>(raw[3 * j + 2]) + biases[2 * p.shape.components + j];
    mixture.log_weight[j] = w;
    largest = w > largest ? w : largest;
  }
  largest = MaxOverLanes<kWarpSize>(largest);
  double total = 0;
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize) {
    const double weight = exp(mixture.log_weight[j] - largest);
    mixture.weight[j] = weight;
    total += weight;
  }
  total = SumOverLanes<kWarpSize>(total);
  const double log_sum = log(total);
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize) {
    mixture.log_weight[j] = mixture.log_weight[j] - largest - log_sum;
  }
  return total;
}

// The sum of the weights up to component j in the order of the means.
__device__ __forceinline__ double CumulativeWeight(const HeadParams& p, const RowMixture& mixture,
                                                   int j) {
  const double mean = mixture.mean[j];
  double sum = 0;
#pragma unroll 4
  for (int k = 0; k < p.shape.components; ++k) {
    const double other = mixture.mean[k];
    const bool up_to = other < mean || (other == mean && k <= j);
    sum += up_to ? mixture.weight[k] : 0;
  }
  return sum;
}

// MixtureDraw of kernels/ops/mixture_head.h; all lanes return the same. Instead of sorting, each
// lane adds up the weights of the components before its own. The sums may end below the total by
// rounding: then the last component with a weight is drawn.
__device__ __forceinline__ double DrawValue(const HeadParams& p, const RowMixture& mixture,
                                            double total, const StepDraw& draw) {
  const double threshold = draw.uniform * total;
  const int none = p.shape.components;
  // The first component beyond the threshold, and the last with a weight, of this lane.
  double first_mean = INFINITY;
  double last_mean = -INFINITY;
  int first = none;
  int last = none;
#pragma unroll 1
  for (int j = LaneIndex(); j < p.shape.components; j += kWarpSize) {
    if (!(mixture.weight[j] > 0)) continue;
    const double mean = mixture.mean[j];
    if (mean >= last_mean) {
      last_mean = mean;
      last = j;
    }
    if (mean < first_mean && CumulativeWeight(p, mixture, j) > threshold) {
      first_mean = mean;
      first = j;
    }
  }
  // Of equal means, the first comes before the others, and the last after them.
  const double smallest = -MaxOverLanes<kWarpSize>(-first_mean);
  int chosen = -MaxOverLanes<kWarpSize>(first_mean == smallest ? -first : -none);
  if (chosen == none) {
    const double largest = MaxOverLanes<kWarpSize>(last_mean);
    chosen = MaxOverLanes<kWarpSize>(last < none && last_mean == largest ? last : 0);
  }
  return mixture.mean[chosen] + mixture.std[chosen] * draw.normal;
}

// Overwrites mixture.weight with the components' terms.
__device__ __forceinline__ double LogDensity(const HeadParams& p, const RowMixture& mixture,
                                             double y) {
  const int lane = LaneIndex();
  double largest = -INFINITY;
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize) {
    const double z = (y - mixture.mean[j]) / mixture.std[j];
    const double term = mixture.log_weight[j] - 0.5 * z * z - mixture.log_scale[j];
    mixture.weight[j] = term;
    largest = term > largest ? term : largest;
  }
  largest = MaxOverLanes<kWarpSize>(largest);
  if (largest == -INFINITY) return largest;
  double sum = 0;
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize)
    sum += exp(mixture.weight[j] - largest);
  return largest + log(SumOverLanes<kWarpSize>(sum));
}

__device__ __forceinline__ void StoreMixture(const HeadParams& p, const RowMixture& mixture,
                                             float* to) {
#pragma unroll 1
  for (int j = LaneIndex(); j < p.shape.components; j += kWarpSize) {
    to[j] = static_cast<float>(mixture.mean[j]);
    to[p.shape.components + j] = static_cast<float>(mixture.std[j]);
    to[2 * p.shape.components + j] = static_cast<float>(mixture.log_weight[j]);
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_ROW_MIXTURE_CUH_
