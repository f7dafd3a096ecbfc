#include "kernels/cuda/device.cuh"
#include "kernels/cuda/encode_means.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/prepare.h"
#include "kernels/layout.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 8;

// Grid: x rows, one a warp.
__global__ void __launch_bounds__(kWarps* kWarp)
    EncodeMeansKernel(const __grid_constant__ EncodeMeansParams p) {
  LetNextBegin();
  WaitForPrevious();
  const int row = blockIdx.x * kWarps + threadIdx.x / kWarp;
  if (row >= p.rows) return;
  const double mean = p.means[row];
  float* const encoding = p.encodings + static_cast<int64_t>(row) * p.width;
  for (int c = threadIdx.x % kWarp; c < p.width; c += kWarp) {
    encoding[c] = static_cast<float>(mean * p.weight[c] + p.bias[c]);
  }
}

}  // namespace

ErrorCode PrepareEncodeMeans(int shared_bytes) {
  return PrepareKernel(&EncodeMeansKernel, shared_bytes);
}

ErrorCode LaunchEncodeMeans(const EncodeMeansParams& params, Stream stream) {
  return Launch(
      &EncodeMeansKernel,
      {.blocks_x = static_cast<int>(CeilDiv(params.rows, kWarps)), .threads = kWarps * kWarp},
      stream, params);
}

}  // namespace chorale::kernels::cuda
