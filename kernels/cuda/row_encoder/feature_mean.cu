#include <cassert>

#include "base/integer_math.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/row_encoder/feature_mean.h"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kWarpRows = 4;  // whose sums overlap their latencies

// Grid: x groups of 16 rows. A warp encodes four of them: every lane sums all of their cells, which
// costs no more than one lane's sum, then computes its share of the encodings.
//
// Each product is rounded before it enters a sum, as on the host: the build compiles no two
// operations to one (-fmad=false).
__global__ void __launch_bounds__(kThreads)
    EncodeFeatureMeansKernel(const __grid_constant__ EncodeFeatureMeansParams p) {
  GridDepLaunch();
  GridDepWait();
  const int lane = LaneIndex();
  const int first_row = (static_cast<int>(blockIdx.x) * kWarps + WarpIndex()) * kWarpRows;
  const int rows = min(kWarpRows, p.rows - first_row);
  if (rows <= 0) return;

  const float* cells[kWarpRows];
  double sums[kWarpRows];
#pragma unroll
  for (int i = 0; i < kWarpRows; ++i) {
    const int64_t row = first_row + min(i, rows - 1);  // the last one again, unused
    cells[i] = p.cells + row * p.columns;
    sums[i] = p.first_feature == 0 ? 0.0 : LoadCg<double>(p.sums + row);
  }
#pragma unroll 4
  for (int column = 0; column < p.columns; ++column) {
#pragma unroll
    for (int i = 0; i < kWarpRows; ++i) sums[i] += cells[i][column];
  }

  if (p.first_feature + p.columns < p.features) {
    __syncwarp();  // all lanes have read the sums
#pragma unroll
    for (int i = 0; i < kWarpRows; ++i) {
      if (lane == 0 && i < rows) p.sums[first_row + i] = sums[i];
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kWarpRows; ++i) sums[i] /= p.features;
  for (int d = lane * 4; d < p.width; d += kWarpSize * 4) {
    const Floats4 weight = LoadAs<Floats4>(p.weight + d);
    const Floats4 bias = LoadAs<Floats4>(p.bias + d);
#pragma unroll
    for (int i = 0; i < kWarpRows; ++i) {
      if (i >= rows) continue;
      Floats4 encoding;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        encoding.v[j] = static_cast<float>(sums[i] * weight.v[j] + bias.v[j]);
      }
      StoreAs<Floats4>(p.encodings + static_cast<int64_t>(first_row + i) * p.width + d, encoding);
    }
  }
}

}  // namespace

ErrorCode LoadEncodeFeatureMeansKernel(int shared_bytes) {
  return LoadKernel(&EncodeFeatureMeansKernel, shared_bytes);
}

ErrorCode LaunchEncodeFeatureMeans(const EncodeFeatureMeansParams& params, Stream stream) {
  assert(ValidateEncodeFeatureMeans(params).ok());
  return Launch(
      &EncodeFeatureMeansKernel,
      {.blocks_x = static_cast<int>(CeilDiv(params.rows, kWarps * kWarpRows)), .threads = kThreads},
      stream, params);
}

}  // namespace chorale::kernels::cuda
