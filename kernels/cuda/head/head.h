// The model's head on the GPU: layer norm and two linear maps, then the mixture
// (kernels/ops/mixture_head.h), its log-density and a draw from it in float64.
//
//   z = LN(x);  raw = W2 gelu(W1 z + b1) + b2
//
// Tensor cores compute the maps to about the precision of float32: a weight, or an activation, is
// the sum of two float16, its rounding and the rest, and a product the sum of three, without that
// of the rests. Powers of two (HeadScales) keep all numbers within the range of float16.
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

// Powers of two by which weights and activations are multiplied before they are split.
struct HeadScales {
  float w1 = 1;
  float z = 1;
  float w2 = 1;
  float hidden = 1;  // gelu(W1 z + b1)
};

// Scales by which no number of any row exceeds the range of float16. They follow from the largest
// weight of a map, and from bounds of its inputs: a row that is normalised has a norm of at most
// sqrt(D).
HeadScales HeadScalesOf(const std::vector<float>& gamma, const std::vector<float>& beta,
                        const Matrix& w1, const std::vector<float>& b1, const Matrix& w2);

// A weight matrix in the kernel's layout (head_layout.h), in host memory.
std::vector<uint16_t> PackHeadMap(const Matrix& map, float scale);

// Device memory, f32; matrices aligned to 16 bytes.
struct HeadWeights {
  const float* gamma = nullptr;        // [D]
  const float* beta = nullptr;         // [D]
  const uint16_t* w1 = nullptr;        // PackHeadMap of [Dff, D]
  const float* b1 = nullptr;           // [Dff]
  const uint16_t* w2 = nullptr;        // PackHeadMap of [3M, Dff]
  const float* b2 = nullptr;           // [3M]
  const float* mean_bias = nullptr;    // [M]
  const float* std_bias = nullptr;     // [M]
  const float* weight_bias = nullptr;  // [M]
  HeadScales scales;
};

struct HeadParams {
  Tile* tiles = nullptr;     // [tiles], device; of a decode, updated
  const float* x = nullptr;  // [tiles, 64, D] f32, device, aligned to 16 bytes
  // [tiles], device, aligned to 16 bytes: the paths whose query rows get values drawn or scored.
  // Null: all rows are query rows to predict, and only their mixtures are stored.
  //
  // A tile with steps left advances to its next position (counters of Tile and PathTile). If it has
  // no steps or no positions left then, it becomes idle (groups = 0).
  PathTile* paths = nullptr;
  float* mixtures = nullptr;  // [tiles, 64, 3, M] f32, device; only when `paths` is null
  HeadWeights weights;
  int32_t tile_count = 0;
  ModelShape shape;  // Dff, M, and D: a multiple of 4
  float epsilon = 0;
  float std_min = 0;
  float std_max = 0;
  // Of the device, and of a block of it. They affect speed alone.
  int32_t multiprocessors = 1;
  int32_t shared_bytes = 99 * 1024;
};

// InvalidArgument naming the field.
absl::Status ValidateHead(const HeadParams& params);

// Bytes of shared memory that a block needs; if it has more, it may compute more rows.
int HeadSharedBytes(const ModelShape& shape);

// REQUIRES: ValidateHead(params).ok(); a block of the device can have HeadSharedBytes.
ErrorCode LaunchHead(const HeadParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_HEAD_H_
