#include <cassert>

#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/memory_set/copy_set.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = 128;

// Grid: x key blocks of all places, y K/V heads. A block writes one key block.
//
// -inf: log-weights are finite.
__global__ void __launch_bounds__(kThreads) CopySetKernel(const __grid_constant__ CopySetParams p) {
  GridDepLaunch();
  GridDepWait();
  const int key_block = blockIdx.x;
  const int head = blockIdx.y;
  const int first = key_block * kKeyBlockKeys;
  const bool of_set = first < p.keys.set_keys;
  const auto block_size = static_cast<int>(KeyBlockSize(p.shape.head_dim));
  const int64_t set_blocks = ContextKeyBlocks(p.keys.set_keys);
  if (of_set) {
    const uint16_t* const from = p.set_kv + (head * set_blocks + key_block) * block_size;
    uint16_t* const to =
        p.keys.kv + (head * ContextKeyBlocks(p.keys.places()) + key_block) * block_size;
    for (int i = ThreadIndex() * 8; i < block_size; i += kThreads * 8) {
      StoreAs<Words4>(to + i, LoadCg<Words4>(from + i));
    }
  }
  if (ThreadIndex() >= kKeyBlockKeys) return;
  const int place = first + ThreadIndex();
  float log_weight = kNoKeyLogWeight;
  if (of_set && place < p.keys.set_keys) {
    log_weight = LoadCg<float>(p.set_log_weights + head * ContextWeights(p.keys.set_keys) + place);
  } else if (!of_set && place < p.keys.places()) {
    log_weight = 0;
  }
  p.keys.log_weights[head * ContextWeights(p.keys.places()) + place] = log_weight;
}

}  // namespace

ErrorCode LoadCopySetKernel(int shared_bytes) { return LoadKernel(&CopySetKernel, shared_bytes); }

ErrorCode LaunchCopySet(const CopySetParams& params, Stream stream) {
  assert(ValidateCopySet(params).ok());
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(ContextKeyBlocks(params.keys.places())),
      .blocks_y = params.shape.kv_heads,
      .threads = kThreads,
  };
  return Launch(&CopySetKernel, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
