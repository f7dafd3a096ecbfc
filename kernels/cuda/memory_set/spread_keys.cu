#include <cassert>
#include <cfloat>
#include <cmath>

#include "base/arena_layout.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/memory_set/key_elements.cuh"
#include "kernels/cuda/memory_set/largest_priorities.cuh"
#include "kernels/cuda/memory_set/spread_keys.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = kSpreadThreads;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kCentres = static_cast<int>(kCentresAtOnce);
using Largest = LargestPriorities<kThreads>;

struct SpreadKernelParams {
  SpreadKeysParams spread;
  int32_t group;  // of the centres that the launch draws; -1: before the first group
};

// A block's shared memory.
struct SmemLayout {
  SmemArray<Largest::Shared> largest;
  SmemArray<float> centres;  // [kCentres, Dh]
  SmemArray<float> maxima;   // [kWarps]
  int32_t bytes = 0;
};

constexpr SmemLayout SmemLayoutOf(int head_dim) {
  SmemArenaLayout arena(16);
  SmemLayout layout;
  layout.largest = arena.Take<Largest::Shared>(1);
  layout.centres = arena.Take<float>(kCentres * head_dim);
  layout.maxima = arena.Take<float>(kWarps);
  layout.bytes = arena.bytes();
  return layout;
}

// One head's keys of a block.
class SpreadBlock {
 public:
  __device__ __forceinline__ SpreadBlock(const SpreadKeysParams& p, char* shared)
      : p_(p),
        shared_(shared),
        smem_(SmemLayoutOf(p.shape.head_dim)),
        head_(blockIdx.y),
        n_(p.keys.keys()),
        block_keys_(static_cast<int>(SpreadBlockKeys(n_))),
        first_(blockIdx.x * block_keys_),
        end_(min(first_ + block_keys_, n_)),
        kv_(p.keys.kv + ContextKeyBlockAt(/*layer=*/0, head_, /*key_block=*/0, p.keys.places(),
                                          p.shape.kv_heads, p.shape.head_dim)),
        weight_(p.weight + int64_t{head_} * n_),
        distance_(p.distance + int64_t{head_} * n_),
        nearest_(p.nearest + int64_t{head_} * n_) {}

  // Sets the state before the first group: weights relative to the largest, and equal distances.
  __device__ __forceinline__ void Begin() {
    const double largest = LargestLogWeight();
    for (int i = 0; i < block_keys_ / kThreads; ++i) {
      const int key = KeyOf(i);
      if (key >= end_) break;
      weight_[key] = exp2(static_cast<double>(LogWeight(key)) - largest);
      distance_[key] = 1;
      nearest_[key] = 0;
    }
  }

  // Draws the centres of a group, and lowers the distances of the block's keys to them.
  __device__ __forceinline__ void Draw(int group) {
    const int first_centre = group * kCentres;
    const int count = min(kCentres, p_.centre_count - first_centre);
    Largest largest(*smem_.largest.At(shared_));
    const auto all = static_cast<int>(SpreadBlocks(n_)) * kCentres;
    SpreadCandidate candidate;
    if (ThreadIndex() < all) {
      candidate = LoadCg<SpreadCandidate>(CandidatesOf(group, /*block=*/0) + ThreadIndex());
    }
    largest.Offer(candidate);
    largest.Finish();
    float* const centres = smem_.centres.At(shared_);
    const int width = p_.shape.head_dim;
    for (int i = ThreadIndex(); i < count * width; i += kThreads) {
      const int place = p_.keys.PlaceOf(largest.Get(i / width).key);
      centres[i] = LoadElement(kv_, KeyElementAt(place, i % width, width));
    }
    if (blockIdx.x == 0 && ThreadIndex() < count) {
      p_.centres[int64_t{head_} * p_.centre_count + first_centre + ThreadIndex()] =
          largest.Get(ThreadIndex()).key;
    }
    __syncthreads();
    for (int i = 0; i < block_keys_ / kThreads; ++i) {
      if (KeyOf(i) < end_) Approach(KeyOf(i), group, count, largest);
    }
  }

  // Selects the block's candidates for a group.
  __device__ __forceinline__ void Select(int group) {
    __syncthreads();  // nobody reads the centres of the group before
    Largest largest(*smem_.largest.At(shared_));
    for (int i = 0; i < block_keys_ / kThreads; ++i) {
      const int key = KeyOf(i);
      SpreadCandidate own;
      if (key < end_) own = {.priority = Priority(key, group), .key = key};
      largest.Offer(own);
    }
    largest.Finish();
    if (ThreadIndex() < kCentres) {
      CandidatesOf(group, blockIdx.x)[ThreadIndex()] = largest.Get(ThreadIndex());
    }
  }

 private:
  // The thread's i-th key. A warp takes neighbouring keys.
  __device__ __forceinline__ int KeyOf(int i) const {
    return first_ + (WarpIndex() * (block_keys_ / kThreads) + i) * kWarpSize + LaneIndex();
  }

  __device__ __forceinline__ float LogWeight(int key) const {
    return LoadCg<float>(p_.keys.log_weights + head_ * ContextWeights(p_.keys.places()) +
                         p_.keys.PlaceOf(key));
  }

  // Of all keys of the head.
  __device__ __forceinline__ float LargestLogWeight() const {
    float largest = -INFINITY;
    for (int key = ThreadIndex(); key < n_; key += kThreads) {
      largest = fmaxf(largest, LogWeight(key));
    }
    largest = MaxOverLanes<kWarpSize>(largest);
    float* const maxima = smem_.maxima.At(shared_);
    if (LaneIndex() == 0) maxima[WarpIndex()] = largest;
    __syncthreads();
    for (int warp = 0; warp < kWarps; ++warp) largest = fmaxf(largest, maxima[warp]);
    return largest;
  }

  // Launches take turns with two arrays: a block of the next one may write its candidates before
  // another block of this one has read those that it draws from.
  __device__ __forceinline__ SpreadCandidate* CandidatesOf(int group, int block) const {
    const int64_t blocks = SpreadBlocks(n_);
    return p_.candidates + ((group % 2 * p_.shape.kv_heads + head_) * blocks + block) * kCentres;
  }

  // 0 of a centre, which is not drawn again.
  __device__ __forceinline__ uint64_t Priority(int key, int group) const {
    const auto distance = LoadCg<float>(distance_ + key);
    if (distance < 0) return 0;
    const uint64_t path =
        (static_cast<uint64_t>(p_.first_stream + head_) << 32) | static_cast<uint64_t>(group);
    const auto words =
        PhiloxBlock(p_.seed, path, static_cast<uint32_t>(key / 4), RandomStream::kCentre);
    const int word = key % 4;
    const uint32_t random =
        word < 2 ? (word == 0 ? words.v[0] : words.v[1]) : (word == 2 ? words.v[2] : words.v[3]);
    const double u = (random + 0.5) * 0x1p-32;
    return CandidatePriority(LoadCg<double>(weight_ + key), distance, -1 / log1p(-u));
  }

  __device__ __forceinline__ void Approach(int key, int group, int count,
                                           const Largest& largest) const {
    const int width = p_.shape.head_dim;
    const float* const centres = smem_.centres.At(shared_);
    const int place = p_.keys.PlaceOf(key);
    float squares[kCentres] = {};
#pragma unroll 1
    for (int d = 0; d < width; d += 8) {
      float own[8];
      LoadKeyElements(kv_, place, d, width, own);
#pragma unroll
      for (int c = 0; c < kCentres; ++c) {
        if (c >= count) continue;
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
          const auto centre = LoadAs<Floats4>(centres + c * width + d + i);
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float difference = own[i + j] - centre.v[j];
            squares[c] = fmaf(difference, difference, squares[c]);
          }
        }
      }
    }
    // The distances before the first group stand for none.
    float least = group == 0 ? INFINITY : LoadCg<float>(distance_ + key);
    int nearest = group == 0 ? 0 : LoadCg<int32_t>(nearest_ + key);
#pragma unroll
    for (int c = 0; c < kCentres; ++c) {
      if (c >= count) continue;
      const float square = squares[c] < FLT_MAX ? squares[c] : FLT_MAX;  // also of NaN
      if (square < least) {
        least = square;
        nearest = group * kCentres + c;
      }
    }
    for (int c = 0; c < count; ++c) {
      if (largest.Get(c).key != key) continue;
      least = -1;
      nearest = group * kCentres + c;
    }
    distance_[key] = least;
    nearest_[key] = nearest;
  }

  const SpreadKeysParams& p_;
  char* const shared_;
  const SmemLayout smem_;
  const int head_;
  const int n_;
  const int block_keys_;
  const int first_;  // of the block's keys
  const int end_;
  const uint16_t* const kv_;  // of the head
  // Of the head. Only the thread that takes a key accesses its elements.
  double* const weight_;
  float* const distance_;
  int32_t* const nearest_;
};

// Grid: x blocks of a head's keys, y K/V heads. All blocks of a head select the centres of the
// group, the same ones. Each then compares its keys with them, and selects its candidates for the
// next group. Every thread takes the same keys in all launches.
//
// -inf: log-weights are finite, and so is their maximum.
__global__ void __launch_bounds__(kThreads)
    SpreadKeysKernel(const __grid_constant__ SpreadKernelParams params) {
  GridDepLaunch();
  GridDepWait();
  SpreadBlock block(params.spread, DynamicSmem());
  const int group = params.group;
  if (group < 0) {
    block.Begin();
  } else {
    block.Draw(group);
  }
  if ((group + 1) * kCentres < params.spread.centre_count) block.Select(group + 1);
}

}  // namespace

ErrorCode LoadSpreadKeysKernel(int shared_bytes) {
  return LoadKernel(&SpreadKeysKernel, shared_bytes);
}

ErrorCode LaunchSpreadKeys(const SpreadKeysParams& params, Stream stream) {
  assert(ValidateSpreadKeys(params).ok());
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(SpreadBlocks(params.keys.keys())),
      .blocks_y = params.shape.kv_heads,
      .threads = kThreads,
      .shared_bytes = SmemLayoutOf(params.shape.head_dim).bytes,
  };
  const int first = params.first_centre / kCentres;
  const auto end = static_cast<int>(CeilDiv(params.end_centre, kCentres));
  for (int group = first == 0 ? -1 : first; group < end; ++group) {
    const ErrorCode error =
        Launch(&SpreadKeysKernel, shape, stream, SpreadKernelParams{params, group});
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace chorale::kernels::cuda
