// The model's head on the GPU: layer norm and two linear maps in float32, then the mixture
// (kernels/ops/mixture_head.h), its log-density and a draw from it in float64.
//
//   z = LN(x);  raw = W2 gelu(W1 z + b1) + b2
//
// Random numbers are those of kernels/ops/random.h. Philox words and the uniform have the same bits
// as on a CPU; the normal may differ by a few units of 2^-53, as the logarithms and cosines do.
#ifndef CHORALE_KERNELS_CUDA_HEAD_HEAD_H_
#define CHORALE_KERNELS_CUDA_HEAD_HEAD_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

inline constexpr int64_t kLargestHidden = 4096;
inline constexpr int64_t kMostComponents = 256;

// A weight matrix in the kernel's layout (head_layout.h), in host memory.
std::vector<float> PackHeadMap(const Matrix& map);

// Device memory, f32; matrices aligned to 16 bytes.
struct HeadWeights {
  const float* gamma = nullptr;        // [D]
  const float* beta = nullptr;         // [D]
  const float* w1 = nullptr;           // PackHeadMap of [Dff, D]
  const float* b1 = nullptr;           // [Dff]
  const float* w2 = nullptr;           // PackHeadMap of [3M, Dff]
  const float* b2 = nullptr;           // [3M]
  const float* mean_bias = nullptr;    // [M]
  const float* std_bias = nullptr;     // [M]
  const float* weight_bias = nullptr;  // [M]
};

struct HeadParams {
  const Tile* tiles = nullptr;  // [tiles], device
  const float* x = nullptr;     // [tiles, 64, D] f32, device
  // [tiles], device: the paths whose query rows get values drawn or scored. Null: all rows are
  // query rows to predict, and only their mixtures are stored.
  const PathTile* paths = nullptr;
  float* mixtures = nullptr;  // [tiles, 64, 3, M] f32, device; only when `paths` is null
  HeadWeights weights;
  int32_t tile_count = 0;
  ModelShape shape;  // D, Dff, M
  float epsilon = 0;
  float std_min = 0;
  float std_max = 0;
};

// InvalidArgument naming the field.
absl::Status ValidateHead(const HeadParams& params);

// Bytes of shared memory of a block.
int HeadSharedBytes(const ModelShape& shape);

// REQUIRES: ValidateHead(params).ok(); a block of the device can have HeadSharedBytes.
ErrorCode LaunchHead(const HeadParams& params, Stream stream);

// Advances every tile of a decode to its next position (counters of Tile and PathTile). A tile that
// has no steps or no query rows left becomes idle (groups = 0).
struct AdvancePositionParams {
  Tile* tiles = nullptr;      // [tiles], device, updated
  PathTile* paths = nullptr;  // [tiles], device, updated
  int32_t tile_count = 0;
};

// REQUIRES: pointers are not null, tile_count >= 1.
ErrorCode LaunchAdvancePosition(const AdvancePositionParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_HEAD_H_
