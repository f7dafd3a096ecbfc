// Layouts of the head kernel: its weights in device memory, its shared memory.
#ifndef CHORALE_KERNELS_CUDA_HEAD_HEAD_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_HEAD_HEAD_LAYOUT_H_

#include <algorithm>

#include "base/arena_layout.h"
#include "base/integer_math.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {

inline constexpr int kHeadRows = 8;           // rows of a block: the query rows of one group
inline constexpr int kHeadWarps = 16;         // of a block
inline constexpr int kHeadMixtureArrays = 5;  // of RowMixture (row_mixture.cuh)
inline constexpr int kHeadOutputs = 64;       // outputs that a warp sums, two a lane
inline constexpr int kHeadInputs = 8;  // inputs of one k-step, whose weights a lane prefetches

constexpr int HeadPaddedInputs(int inputs) {
  return static_cast<int>(RoundUp(inputs, kHeadInputs));
}

// A weight matrix [outputs, inputs] is cut into output tiles of 64 outputs, padded with zeros, in
// the order in which warps read it: [output tile][2 inputs at a time][lane][2 inputs][the lane's 2
// outputs].
constexpr int HeadMapSize(int outputs, int inputs) {
  return static_cast<int>(RoundUp(outputs, kHeadOutputs)) * HeadPaddedInputs(inputs);
}
constexpr int HeadMapAt(int output, int input, int inputs) {
  return (output / kHeadOutputs * (HeadPaddedInputs(inputs) / 2) + input / 2) * 2 * kHeadOutputs +
         output % kHeadOutputs / 2 * 4 + input % 2 * 2 + output % 2;
}

// Activations in shared memory: [4 inputs at a time][row, and one row of padding][4 inputs]. The
// padding avoids bank conflicts between neighbouring inputs.
constexpr int HeadInputsSize(int inputs) { return inputs / 4 * (kHeadRows + 1) * 4; }
constexpr int HeadInputAt(int row, int input) {
  return HeadInputsSize(input) + row * 4 + input % 4;
}

// How a block's warps divide a linear map. While there are fewer output tiles than warps, the sum
// over inputs is split among warps as well (split-K), so that all warps load weights at once. The
// splits depend on the map's shape alone, and so do a result's bits.
struct HeadMap {
  const float* weight = nullptr;
  const float* bias = nullptr;
  int outputs = 0;
  int k_steps = 0;  // of kHeadInputs inputs
  int output_tiles = 0;
  int passes = 0;          // over all output tiles
  int tiles_per_pass = 1;  // a power of two
  int tile_bits = 0;       // log2(tiles_per_pass)
  int k_splits = kHeadWarps;
  int k_split_bits = 0;  // log2(k_splits)
};

constexpr HeadMap HeadMapOf(const float* weight, const float* bias, int outputs, int inputs) {
  HeadMap map = {.weight = weight, .bias = bias, .outputs = outputs};
  map.k_steps = HeadPaddedInputs(inputs) / kHeadInputs;
  map.output_tiles = static_cast<int>(CeilDiv(outputs, kHeadOutputs));
  while (map.tiles_per_pass < map.output_tiles && map.k_splits > 1) {
    map.tiles_per_pass *= 2;
    map.k_splits /= 2;
    ++map.tile_bits;
  }
  map.passes = static_cast<int>(CeilDiv(map.output_tiles, map.tiles_per_pass));
  while (1 << map.k_split_bits < map.k_splits) ++map.k_split_bits;
  return map;
}

// A block's shared memory. `mixture` overlays z, hidden and partials: both maps are done when it is
// written.
struct HeadLayout {
  SmemArray<float> z;         // HeadInputsSize of the padded width
  SmemArray<float> hidden;    // HeadInputsSize of the padded hidden width
  SmemArray<float> partials;  // [kHeadWarps][kHeadRows][kHeadOutputs]
  SmemArray<double> mixture;  // [kHeadRows][kHeadMixtureArrays][M]
  SmemArray<float> raw;       // [kHeadRows][3M]
  SmemArray<float> norm;      // [width][2]: gamma, beta
  SmemArray<float> b1;        // [hidden]
  SmemArray<float> b2;        // [3M]
  SmemArray<float> biases;    // [3][M]: of means, stds, weights
  SmemArray<StepDraw> draws;  // [kHeadRows]
  SmemArray<PathTile> paths;  // [1]
  int32_t bytes = 0;
};

constexpr HeadLayout HeadLayoutOf(const ModelShape& shape) {
  constexpr int32_t kAlignment = 16;
  HeadLayout layout;
  SmemArenaLayout maps(kAlignment);
  layout.z = maps.Take<float>(HeadInputsSize(HeadPaddedInputs(shape.width)));
  layout.hidden = maps.Take<float>(HeadInputsSize(HeadPaddedInputs(shape.hidden)));
  layout.partials = maps.Take<float>(int64_t{kHeadWarps} * kHeadRows * kHeadOutputs);
  SmemArenaLayout overlay(kAlignment);
  layout.mixture = overlay.Take<double>(int64_t{kHeadRows} * kHeadMixtureArrays * shape.components);

  SmemArenaLayout arena(kAlignment);
  arena.Take<char>(std::max(maps.bytes(), overlay.bytes()));
  layout.raw = arena.Take<float>(int64_t{kHeadRows} * 3 * shape.components);
  layout.norm = arena.Take<float>(int64_t{2} * shape.width);
  layout.b1 = arena.Take<float>(shape.hidden);
  layout.b2 = arena.Take<float>(int64_t{3} * shape.components);
  layout.biases = arena.Take<float>(int64_t{3} * shape.components);
  layout.draws = arena.Take<StepDraw>(kHeadRows);
  layout.paths = arena.Take<PathTile>(1);
  layout.bytes = arena.bytes();
  return layout;
}

// The same for the head of the unfused form: no layer norm, and a chunk of the hidden layer at a
// time. All output tiles are one pass: those of kMostComponents, of three outputs each, are no more
// than the warps.
inline constexpr int kUnfusedHeadChunk = 1'024;
static_assert(3 * kMostComponents <= int64_t{kHeadWarps} * kHeadOutputs);

constexpr HeadLayout UnfusedHeadLayoutOf(int32_t components) {
  constexpr int32_t kAlignment = 16;
  HeadLayout layout;
  SmemArenaLayout maps(kAlignment);
  layout.hidden = maps.Take<float>(HeadInputsSize(kUnfusedHeadChunk));
  layout.partials = maps.Take<float>(int64_t{kHeadWarps} * kHeadRows * kHeadOutputs);
  SmemArenaLayout overlay(kAlignment);
  layout.mixture = overlay.Take<double>(int64_t{kHeadRows} * kHeadMixtureArrays * components);

  SmemArenaLayout arena(kAlignment);
  arena.Take<char>(std::max(maps.bytes(), overlay.bytes()));
  layout.raw = arena.Take<float>(int64_t{kHeadRows} * 3 * components);
  layout.b2 = arena.Take<float>(int64_t{3} * components);
  layout.biases = arena.Take<float>(int64_t{3} * components);
  layout.draws = arena.Take<StepDraw>(kHeadRows);
  layout.paths = arena.Take<PathTile>(1);
  layout.bytes = arena.bytes();
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_HEAD_LAYOUT_H_
