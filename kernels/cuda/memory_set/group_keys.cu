#include <cassert>

#include "base/integer_math.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/memory_set/group_keys.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 32;
constexpr int kThreads = kWarps * kWarpSize;

// Calls visit(key, nearest) in each lane of every warp for all keys of a head, 32 neighbouring keys
// at a time: -1 after the last key. `chunk`: shared memory, [kThreads].
template <typename Visit>
__device__ __forceinline__ void ForAllKeys(const int32_t* nearest, int n, int32_t* chunk,
                                           const Visit& visit) {
#pragma unroll 1
  for (int first = 0; first < n; first += kThreads) {
    const int own = first + ThreadIndex();
    __syncthreads();  // all warps have finished the previous chunk
    chunk[ThreadIndex()] = own < n ? LoadCg<int32_t>(nearest + own) : -1;
    __syncthreads();
    const int keys = min(kThreads, n - first);
#pragma unroll 4
    for (int i = LaneIndex(); i - LaneIndex() < keys; i += kWarpSize) visit(first + i, chunk[i]);
  }
}

// Grid: x some groups, y K/V heads. A warp takes one group: it counts the keys of the groups
// before, then writes its own. All keys pass through shared memory twice.
//
// -inf: there are no scores.
__global__ void __launch_bounds__(kThreads)
    GroupKeysKernel(const __grid_constant__ GroupKeysParams p) {
  GridDepLaunch();
  GridDepWait();
  auto* const chunk = reinterpret_cast<int32_t*>(DynamicSmem());
  const int n = p.groups.n;
  const int group = p.first_group + static_cast<int>(blockIdx.x) * kWarps + WarpIndex();
  const int32_t* const nearest = p.nearest + int64_t{blockIdx.y} * n;
  int before = 0;
  ForAllKeys(nearest, n, chunk,
             [&](int /*key*/, int32_t centre) { before += centre >= 0 && centre < group ? 1 : 0; });
  before = SumOverLanes<kWarpSize>(before);
  int32_t* const group_begin = p.groups.group_begin + int64_t{blockIdx.y} * (p.groups.groups + 1);
  if (LaneIndex() == 0 && group < p.end_group) {
    group_begin[group] = before;
    if (group + 1 == p.groups.groups) group_begin[p.groups.groups] = n;
  }
  int32_t* const member = p.groups.member + int64_t{blockIdx.y} * n;
  ForAllKeys(nearest, n, chunk, [&](int key, int32_t centre) {
    const bool joins = centre == group && group < p.end_group;
    const uint32_t lanes = __ballot_sync(kAllLanes, joins ? 1 : 0);
    if (joins) member[before + __popc(lanes & ((1u << LaneIndex()) - 1))] = key;
    before += __popc(lanes);
  });
}

}  // namespace

ErrorCode LoadGroupKeysKernel(int shared_bytes) {
  return LoadKernel(&GroupKeysKernel, shared_bytes);
}

ErrorCode LaunchGroupKeys(const GroupKeysParams& params, Stream stream) {
  assert(ValidateGroupKeys(params).ok());
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.end_group - params.first_group, kWarps)),
      .blocks_y = params.kv_heads,
      .threads = kThreads,
      .shared_bytes = kThreads * static_cast<int>(sizeof(int32_t)),
  };
  return Launch(&GroupKeysKernel, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
