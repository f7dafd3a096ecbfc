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
  // Cumulative weights, not normalised; -1 for a component without weight. Later reused for the
  // terms of a log-density.
  double* cumulative;
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

// Sum of `value` over this lane and all lanes before it.
__device__ __forceinline__ double InclusiveScan(double value) {
  const int lane = LaneIndex();
#pragma unroll
  for (int lanes = 1; lanes < kWarpSize; lanes *= 2) {
    const double other = __shfl_sync(kAllLanes, value, max(lane - lanes, 0));
    if (lane >= lanes) value += other;
  }
  return value;
}

// Returns the total by which cumulative weights are normalised.
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
  for (int first = 0; first < p.shape.components; first += kWarpSize) {
    const int j = first + lane;
    const double weight = j < p.shape.components ? exp(mixture.log_weight[j] - largest) : 0;
    const double sum = total + InclusiveScan(weight);
    if (j < p.shape.components) mixture.cumulative[j] = weight > 0 ? sum : -1;
    total = __shfl_sync(kAllLanes, sum, kWarpSize - 1);
  }
  const double log_sum = log(total);
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize) {
    mixture.log_weight[j] = mixture.log_weight[j] - largest - log_sum;
  }
  return total;
}

// MixtureDraw of kernels/ops/mixture_head.h; all lanes return the same. The total is summed in
// another order than the cumulative weights and may exceed the last of them by rounding: then the
// last component with a weight is drawn.
__device__ __forceinline__ double DrawValue(const HeadParams& p, const RowMixture& mixture,
                                            double total, const StepDraw& draw) {
  const double threshold = draw.uniform * total;
  int chosen = 0;
#pragma unroll 1
  for (int first = 0; first < p.shape.components; first += kWarpSize) {
    const int j = first + LaneIndex();
    const double cumulative = j < p.shape.components ? mixture.cumulative[j] : -1;
    const uint32_t beyond = __ballot_sync(kAllLanes, cumulative > threshold);
    const uint32_t weighty = __ballot_sync(kAllLanes, cumulative > 0);
    if (beyond != 0) {
      chosen = first + __ffs(beyond) - 1;
      break;
    }
    if (weighty != 0) chosen = first + kWarpSize - 1 - __clz(weighty);
  }
  return mixture.mean[chosen] + mixture.std[chosen] * draw.normal;
}

// Overwrites mixture.cumulative with the components' terms.
__device__ __forceinline__ double LogDensity(const HeadParams& p, const RowMixture& mixture,
                                             double y) {
  const int lane = LaneIndex();
  double largest = -INFINITY;
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize) {
    const double z = (y - mixture.mean[j]) / mixture.std[j];
    const double term = mixture.log_weight[j] - 0.5 * z * z - mixture.log_scale[j];
    mixture.cumulative[j] = term;
    largest = term > largest ? term : largest;
  }
  largest = MaxOverLanes<kWarpSize>(largest);
  if (largest == -INFINITY) return largest;
  double sum = 0;
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize)
    sum += exp(mixture.cumulative[j] - largest);
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
