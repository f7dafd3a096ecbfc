#include "kernels/cuda/gemm/gemm_plan.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Grid: x rows. Threads that find a difference store the same word.
__global__ void __launch_bounds__(kThreads)
    CompareRowsKernel(const __grid_constant__ CompareRowsParams p) {
  GridDepLaunch();
  GridDepWait();
  const uint32_t* y = p.y + static_cast<int64_t>(blockIdx.x) * p.row_words;
  const uint32_t* expected = p.expected + static_cast<int64_t>(blockIdx.x) % p.period * p.row_words;
  for (int i = threadIdx.x; i < p.row_words; i += kThreads) {
    if (LoadCg<uint32_t>(y + i) != LoadCg<uint32_t>(expected + i)) *p.different = 1;
  }
}

}  // namespace

ErrorCode LoadCompareRowsKernel(int shared_bytes) {
  return LoadKernel(&CompareRowsKernel, shared_bytes);
}

ErrorCode LaunchCompareRows(const CompareRowsParams& params, Stream stream) {
  return Launch(&CompareRowsKernel,
                {.blocks_x = static_cast<int>(params.rows), .threads = kThreads}, stream, params);
}

}  // namespace chorale::kernels::cuda
