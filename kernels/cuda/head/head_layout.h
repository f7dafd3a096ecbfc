// Layouts of the head kernel: its weights in device memory, its shared memory.
#ifndef CHORALE_KERNELS_CUDA_HEAD_HEAD_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_HEAD_HEAD_LAYOUT_H_

#include <algorithm>

#include "base/arena_layout.h"
#include "base/integer_math.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {

inline constexpr int kHeadRows = 8;           // of a row set: the query rows of one group
inline constexpr int kHeadWarps = 16;         // of a block
inline constexpr int kHeadMixtureArrays = 5;  // of RowMixture (row_mixture.cuh)
inline constexpr int kHeadOutputs = 16;       // of an output tile: the rows of one mma
inline constexpr int kHeadMmaInputs = 16;     // of one mma
inline constexpr int kHeadInputs = 64;        // of a k-step
// Weights of one mma, two float16 each.
inline constexpr int kHeadFragment = 2 * kHeadOutputs * kHeadMmaInputs;
inline constexpr int kHeadStepSize = kHeadInputs / kHeadMmaInputs * kHeadFragment;

// Inputs and outputs are padded with zeros: the outputs of one map are the inputs of the next.
constexpr int HeadPadded(int n) { return static_cast<int>(RoundUp(n, kHeadInputs)); }

// A weight matrix [outputs, inputs] is operand A of mma, in the order in which warps read it:
// [output tile][16 inputs at a time][roundings, rests][lane][the lane's 8 weights]. Rows g and
// g + 8 of the operand are outputs 2g and 2g + 1, so that a lane's sums are of two neighbouring
// outputs; inputs are in the order of layout/fragments.h.
constexpr int HeadMapSize(int outputs, int inputs) {
  return 2 * HeadPadded(outputs) * HeadPadded(inputs);
}
// Index of a weight's rounding; its rest is kHeadFragment / 2 behind.
constexpr int HeadMapAt(int output, int input, int inputs) {
  const int fragment =
      output / kHeadOutputs * (HeadPadded(inputs) / kHeadMmaInputs) + input / kHeadMmaInputs;
  const int lane = output % kHeadOutputs / 2 * 4 + input % kHeadMmaInputs / 4;
  return fragment * kHeadFragment + lane * 8 + input % 4 / 2 * 4 + output % 2 * 2 + input % 2;
}

// Activations in shared memory are operand B, in quads of 4 inputs: [16 inputs at a time][row
// set][row][4 quads]. A quad has for each pair of inputs a word of roundings and one of rests. The
// order of the quads avoids bank conflicts for a warp that loads the quads of 8 rows, one each lane
// (lane 4 row + quad), and for one that stores a pair of two outputs for each row.
constexpr int HeadQuadOfLane(int lane) { return lane ^ (lane / 4 & 6); }
constexpr int HeadQuadAt(int row, int input, int sets) {
  return (input / kHeadMmaInputs * sets + row / kHeadRows) * kWarpSize +
         HeadQuadOfLane(row % kHeadRows * 4 + input % kHeadMmaInputs / 4);
}

// Floats from a row of `raw` to the next. The padding avoids bank conflicts.
constexpr int HeadRawStride(int components) { return HeadPadded(3 * components) + 4; }

// How a block's warps divide a linear map. While there are fewer output tiles than warps, the sum
// over inputs is split among warps as well (split-K), so that all warps load weights at once. The
// splits depend on the map's shape alone, and so do a result's bits.
struct HeadMap {
  const uint16_t* weight = nullptr;
  float unscale = 1;  // makes products of scaled numbers those of the numbers
  int k_steps = 0;    // of kHeadInputs inputs
  int output_tiles = 0;
  int passes = 0;        // over all output tiles
  int tile_bits = 0;     // log2 of the output tiles of a pass
  int k_split_bits = 0;  // log2 of the k-splits
};

constexpr HeadMap HeadMapOf(const uint16_t* weight, float scale, int outputs, int inputs) {
  HeadMap map = {.weight = weight, .unscale = 1 / scale};
  map.k_steps = HeadPadded(inputs) / kHeadInputs;
  map.output_tiles = HeadPadded(outputs) / kHeadOutputs;
  while (1 << map.tile_bits < std::min(map.output_tiles, kHeadWarps)) ++map.tile_bits;
  while (1 << (map.tile_bits + map.k_split_bits) < kHeadWarps) ++map.k_split_bits;
  map.passes = static_cast<int>(CeilDiv(map.output_tiles, 1 << map.tile_bits));
  return map;
}

// What is known of a row beside its mixture.
struct HeadRow {
  StepDraw draw;       // if its value is drawn
  float observed = 0;  // the value to score, otherwise
  double total = 0;    // of the weights
};

// A block's shared memory. `mixture` overlays z, hidden and partials: both maps are done when it is
// written.
struct HeadLayout {
  SmemArray<Words4> z;          // quads of the padded width
  SmemArray<Words4> hidden;     // quads of the padded hidden width
  SmemArray<Floats4> partials;  // [kHeadWarps][row set][lane]
  SmemArray<double> mixture;    // [row][kHeadMixtureArrays][M]
  SmemArray<float> raw;         // [row][HeadRawStride]: b2, to which the sums are added
  SmemArray<float> norm;        // [width][2]: gamma, beta
  SmemArray<float> b1;          // [padded hidden]
  SmemArray<float> biases;      // [3][M]: of means, stds, weights
  SmemArray<HeadRow> rows;      // [row]
  SmemArray<PathTile> paths;    // [1]
  int32_t bytes = 0;
};

// The rest of the layout of a block of `sets` row sets that has z and hidden.
constexpr HeadLayout CompleteHeadLayout(HeadLayout layout, SmemArenaLayout maps, int32_t width,
                                        int32_t hidden, int32_t components, int sets) {
  constexpr int32_t kAlignment = 16;
  const int64_t rows = int64_t{sets} * kHeadRows;
  layout.partials = maps.Take<Floats4>(int64_t{kHeadWarps} * sets * kWarpSize);
  SmemArenaLayout overlay(kAlignment);
  layout.mixture = overlay.Take<double>(rows * kHeadMixtureArrays * components);

  SmemArenaLayout arena(kAlignment);
  arena.Take<char>(std::max(maps.bytes(), overlay.bytes()));
  layout.raw = arena.Take<float>(rows * HeadRawStride(components));
  layout.norm = arena.Take<float>(int64_t{2} * width);
  layout.b1 = arena.Take<float>(HeadPadded(hidden));
  layout.biases = arena.Take<float>(int64_t{3} * components);
  layout.rows = arena.Take<HeadRow>(rows);
  layout.paths = arena.Take<PathTile>(1);
  layout.bytes = arena.bytes();
  return layout;
}

constexpr HeadLayout HeadLayoutOf(const ModelShape& shape, int sets) {
  HeadLayout layout;
  SmemArenaLayout maps(16);
  layout.z = maps.Take<Words4>(HeadQuadAt(0, HeadPadded(shape.width), sets));
  layout.hidden = maps.Take<Words4>(HeadQuadAt(0, HeadPadded(shape.hidden), sets));
  return CompleteHeadLayout(layout, maps, shape.width, shape.hidden, shape.components, sets);
}

// The same for the head of the unfused form: no layer norm, and a chunk of the hidden layer at a
// time.
inline constexpr int kUnfusedHeadChunk = 1'024;
static_assert(kUnfusedHeadChunk % kHeadInputs == 0);

constexpr HeadLayout UnfusedHeadLayoutOf(int32_t components) {
  HeadLayout layout;
  SmemArenaLayout maps(16);
  layout.hidden = maps.Take<Words4>(HeadQuadAt(0, kUnfusedHeadChunk, 1));
  return CompleteHeadLayout(layout, maps, 0, 0, components, 1);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_HEAD_LAYOUT_H_
