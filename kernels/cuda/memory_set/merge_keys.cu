#include <cassert>
#include <cmath>
#include <initializer_list>

#include "base/integer_math.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/memory_set/key_elements.cuh"
#include "kernels/cuda/memory_set/merge_keys.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;

// One group of one head, in a warp. A lane takes every 32nd element of K and V.
template <int kHeadDim>
class MergedKey {
  static constexpr int kElements = 2 * kHeadDim / kWarpSize;

 public:
  __device__ __forceinline__ MergedKey(const MergeKeysParams& p, int head)
      : p_(p),
        kv_(p.keys.kv + ContextKeyBlockAt(/*layer=*/0, head, /*key_block=*/0, p.keys.places(),
                                          p.shape.kv_heads, kHeadDim)),
        log_weights_(p.keys.log_weights + head * ContextWeights(p.keys.places())) {}

  // Merges `count` keys.
  __device__ __forceinline__ void Merge(const int32_t* member, int count) {
    float largest = -INFINITY;
    for (int i = LaneIndex(); i < count; i += kWarpSize) {
      const int place = p_.keys.PlaceOf(LoadCg<int32_t>(member + i));
      largest = fmaxf(largest, LoadCg<float>(log_weights_ + place));
    }
    largest = MaxOverLanes<kWarpSize>(largest);
    double total = 0;
#pragma unroll 2
    for (int i = 0; i < count; ++i) {
      const int place = p_.keys.PlaceOf(LoadCg<int32_t>(member + i));
      const double weight =
          exp2(static_cast<double>(LoadCg<float>(log_weights_ + place)) - largest);
      total += weight;
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        const int e = k * kWarpSize + LaneIndex();
        sums_[k] =
            fma(weight, static_cast<double>(LoadElement(kv_, KeyElementAt(place, e, kHeadDim))),
                sums_[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kElements; ++k) sums_[k] /= total;
    log_weight_ = static_cast<float>(largest + log2(total));
  }

  __device__ __forceinline__ float log_weight() const { return log_weight_; }

  // `to`: the first key block of the head in the set.
  __device__ __forceinline__ void Store(uint16_t* to, int place) const {
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const int e = k * kWarpSize + LaneIndex();
      StoreElement(to, KeyElementAt(place, e, kHeadDim), static_cast<float>(sums_[k]));
    }
  }

 private:
  const MergeKeysParams& p_;
  const uint16_t* const kv_;        // of the head
  const float* const log_weights_;  // of the head
  double sums_[kElements] = {};
  float log_weight_ = kNoKeyLogWeight;
};

// Grid: x some groups, and the padding after the last one, y K/V heads. A warp takes one group, and
// adds its keys in their order. A group of one key has a weight of 1 relative to the largest, and
// its mean is that key.
//
// -inf: log-weights are finite, and no group is empty.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    MergeKeysKernel(const __grid_constant__ MergeKeysParams p) {
  GridDepLaunch();
  GridDepWait();
  const int head = blockIdx.y;
  const int groups = p.groups.groups;
  const auto places = static_cast<int>(ContextWeights(groups));
  const int group = p.first_group + static_cast<int>(blockIdx.x) * kWarps + WarpIndex();
  if (group >= (p.end_group == groups ? places : p.end_group)) return;
  MergedKey<kHeadDim> merged(p, head);
  float log_weight = kNoKeyLogWeight;
  if (group < groups) {
    const int32_t* const begin = p.groups.group_begin + int64_t{head} * (groups + 1) + group;
    const auto first = LoadCg<int32_t>(begin);
    const int32_t* const member = p.groups.member + int64_t{head} * p.groups.n + first;
    merged.Merge(member, LoadCg<int32_t>(begin + 1) - first);
    log_weight = p.new_log_weights == nullptr
                     ? merged.log_weight()
                     : LoadCg<float>(p.new_log_weights + int64_t{head} * groups + group);
  }
  merged.Store(p.set_kv + ContextKeyBlockAt(/*layer=*/0, head, /*key_block=*/0, groups,
                                            p.shape.kv_heads, kHeadDim),
               group);
  if (LaneIndex() == 0) p.set_log_weights[head * int64_t{places} + group] = log_weight;
}

template <int kHeadDim>
ErrorCode LaunchAs(const MergeKeysParams& params, Stream stream) {
  const int64_t end = params.end_group == params.groups.groups ? ContextWeights(params.end_group)
                                                               : int64_t{params.end_group};
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(end - params.first_group, kWarps)),
      .blocks_y = params.shape.kv_heads,
      .threads = kThreads,
  };
  return Launch(&MergeKeysKernel<kHeadDim>, shape, stream, params);
}

}  // namespace

ErrorCode LoadMergeKeysKernels(int shared_bytes) {
  for (const auto kernel :
       {&MergeKeysKernel<16>, &MergeKeysKernel<32>, &MergeKeysKernel<64>, &MergeKeysKernel<128>}) {
    if (const ErrorCode error = LoadKernel(kernel, shared_bytes); error != 0) return error;
  }
  return 0;
}

ErrorCode LaunchMergeKeys(const MergeKeysParams& params, Stream stream) {
  assert(ValidateMergeKeys(params).ok());
  switch (params.shape.head_dim) {
    case 16:
      return LaunchAs<16>(params, stream);
    case 32:
      return LaunchAs<32>(params, stream);
    case 64:
      return LaunchAs<64>(params, stream);
    default:
      return LaunchAs<128>(params, stream);
  }
}

}  // namespace chorale::kernels::cuda
