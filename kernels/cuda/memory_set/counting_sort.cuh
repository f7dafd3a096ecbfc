// A stable sort by small numbers, in one block.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_COUNTING_SORT_CUH_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_COUNTING_SORT_CUH_

#include <cstdint>

#include "base/integer_math.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

inline constexpr int kSortWarps = 8;
// Elements of the counters of a sort.
constexpr int64_t SortCounters(int64_t buckets) { return buckets * kSortWarps; }

// Replaces each of `count` numbers by the sum of those before it. Returns the sum of all. Called by
// one warp.
__device__ __forceinline__ int32_t SumsBefore(int32_t* numbers, int count) {
  const int each = (count + kWarpSize - 1) / kWarpSize;  // of a lane
  const int first = min(LaneIndex() * each, count);
  const int end = min(first + each, count);
  int32_t own = 0;
  for (int i = first; i < end; ++i) own += numbers[i];
  int32_t upto = own;
#pragma unroll
  for (int lanes = 1; lanes < kWarpSize; lanes *= 2) {
    const int32_t other = __shfl_sync(kAllLanes, upto, max(LaneIndex() - lanes, 0));
    if (LaneIndex() >= lanes) upto += other;
  }
  int32_t before = upto - own;
  for (int i = first; i < end; ++i) {
    const int32_t number = numbers[i];
    numbers[i] = before;
    before += number;
  }
  __syncwarp();
  return __shfl_sync(kAllLanes, upto, kWarpSize - 1);
}

// Sorts `items` items by bucket, and those of a bucket by their index. The first kSortWarps warps
// take equal parts of the items. All threads of the block, kThreads, call Run.
template <int kThreads>
class CountingSort {
  static_assert(kThreads >= kSortWarps * kWarpSize);

 public:
  // `counters`: [SortCounters(buckets)], which the block alone uses until the end of Run.
  __device__ __forceinline__ CountingSort(int32_t* counters, int items, int buckets)
      : counters_(counters),
        items_(items),
        buckets_(buckets),
        warp_items_(static_cast<int>(RoundUp(CeilDiv(items, kSortWarps), kWarpSize))) {}

  // `bucket_of(item)` is the bucket of an item. Calls begin(bucket, position) for all buckets, with
  // the position of the first item, then place(item, position) for all items, each by any thread.
  // All threads see what these have written.
  template <typename BucketOf, typename Begin, typename Place>
  __device__ __forceinline__ void Run(const BucketOf& bucket_of, const Begin& begin,
                                      const Place& place) const {
    for (int i = ThreadIndex(); i < buckets_ * kSortWarps; i += kThreads) counters_[i] = 0;
    __syncthreads();
    ForOwnItems(bucket_of, [](int, int) {});
    __syncthreads();
    if (WarpIndex() == 0) SumsBefore(counters_, buckets_ * kSortWarps);
    __syncthreads();
    for (int bucket = ThreadIndex(); bucket < buckets_; bucket += kThreads) {
      begin(bucket, counters_[bucket * kSortWarps]);
    }
    __syncthreads();
    ForOwnItems(bucket_of, place);
    __syncthreads();
  }

 private:
  // Takes the items of the warp: calls visit(item, counter of its bucket and warp) for each of
  // them, and counts it.
  template <typename BucketOf, typename Visit>
  __device__ __forceinline__ void ForOwnItems(const BucketOf& bucket_of, const Visit& visit) const {
    if (WarpIndex() >= kSortWarps) return;
    const int end = min((WarpIndex() + 1) * warp_items_, items_);
#pragma unroll 1
    for (int first = WarpIndex() * warp_items_; first < end; first += kWarpSize) {
      const int item = first + LaneIndex();
      const int bucket = item < end ? bucket_of(item) : -1;
      const uint32_t same = __match_any_sync(kAllLanes, bucket);
      const uint32_t earlier = same & ((1u << LaneIndex()) - 1);
      int32_t* const counter = counters_ + bucket * kSortWarps + WarpIndex();
      const int32_t count = bucket < 0 ? 0 : *counter;
      __syncwarp();
      if (bucket >= 0) {
        visit(item, count + __popc(earlier));
        if (earlier == 0) *counter = count + __popc(same);
      }
      __syncwarp();
    }
  }

  int32_t* const counters_;
  const int items_;
  const int buckets_;
  const int warp_items_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_COUNTING_SORT_CUH_
