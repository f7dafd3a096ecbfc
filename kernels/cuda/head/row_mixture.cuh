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

__device__ __forceinline__ void ComputeComponent(const HeadParams& p, const float* raw,
                                                 const float* biases, const RowMixture& mixture,
                                                 int j) {
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
  mixture.mean[j] = static_cast<double>(raw[3 * j]) + biases[j];
  const double s = static_cast<double>(raw[3 * j + 1]) + biases[p.shape.components + j];
  // Beyond 40, exp(-s) is lost against s.
  const double softplus = s > 40 ? s : log1p(exp(s));
  const double std = (softplus < p.std_max ? softplus : p.std_max) + p.std_min;
  mixture.std[j] = std;
  mixture.log_scale[j] = log(std) + kHalfLogTwoPi;
}

// Sets `totals` to the sums of the weights, by which they are normalised. `first`: the raw outputs
// of the first of kRows rows, each `stride` floats behind the one before. Several rows at once
// overlap their latencies.
template <int kRows>
__device__ __forceinline__ void ComputeWeights(const HeadParams& p, const float* first, int stride,
                                               const float* biases,
                                               const RowMixture (&mixtures)[kRows],
                                               double (&totals)[kRows]) {
  const int lane = LaneIndex();
  double largest[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) largest[r] = -INFINITY;
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize) {
    const float bias = biases[2 * p.shape.components + j];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const double w = static_cast<double>(first[r * stride + 3 * j + 2]) + bias;
      mixtures[r].log_weight[j] = w;
      largest[r] = w > largest[r] ? w : largest[r];
    }
  }
  MaxOverLanes<kWarpSize>(largest);
#pragma unroll
  for (int r = 0; r < kRows; ++r) totals[r] = 0;
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize) {
    double weights[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) weights[r] = exp(mixtures[r].log_weight[j] - largest[r]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      mixtures[r].weight[j] = weights[r];
      totals[r] += weights[r];
    }
  }
  SumOverLanes<kWarpSize>(totals);
  double log_sums[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) log_sums[r] = log(totals[r]);
#pragma unroll 1
  for (int j = lane; j < p.shape.components; j += kWarpSize) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      mixtures[r].log_weight[j] = mixtures[r].log_weight[j] - largest[r] - log_sums[r];
    }
  }
}

// The sum of the weights up to component j in the order of the means. Lanes have different j:
// selections instead of branches keep them together.
__device__ __forceinline__ double CumulativeWeight(const HeadParams& p, const RowMixture& mixture,
                                                   int j) {
  const double mean = mixture.mean[j];
  double sum = 0;
#pragma unroll 4
  for (int k = 0; k < p.shape.components; ++k) {
    const double other = mixture.mean[k];
    const double weight = mixture.weight[k];
    const bool before = other < mean;
    const bool not_after = other <= mean;
    sum += (k <= j ? not_after : before) ? weight : 0.0;
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
  __syncwarp();  // all lanes have read the weights
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
