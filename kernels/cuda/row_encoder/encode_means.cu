#include "base/integer_math.h"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/row_encoder/encode_means.h"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 8;

// Grid: x rows, one a warp.
__global__ void __launch_bounds__(kWarps* kWarpSize)
    EncodeMeansKernel(const __grid_constant__ EncodeMeansParams p) {
  GridDepLaunch();
  GridDepWait();
  const int row = blockIdx.x * kWarps + threadIdx.x / kWarpSize;
  if (row >= p.rows) return;
  const double mean = p.means[row];
  float* const encoding = p.encodings + static_cast<int64_t>(row) * p.width;
  for (int c = threadIdx.x % kWarpSize; c < p.width; c += kWarpSize) {
    encoding[c] = static_cast<float>(mean * p.weight[c] + p.bias[c]);
  }
}

}  // namespace

ErrorCode LoadEncodeMeansKernel(int shared_bytes) {
  return LoadKernel(&EncodeMeansKernel, shared_bytes);
}

ErrorCode LaunchEncodeMeans(const EncodeMeansParams& params, Stream stream) {
  return Launch(
      &EncodeMeansKernel,
      {.blocks_x = static_cast<int>(CeilDiv(params.rows, kWarps)), .threads = kWarps * kWarpSize},
      stream, params);
}

}  // namespace chorale::kernels::cuda
