// How the head's maps lie in memory, and how a block of its kernel divides its shared memory.
#ifndef CHORALE_KERNELS_CUDA_HEAD_HEAD_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_HEAD_HEAD_LAYOUT_H_

#include "base/integer_math.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {

inline constexpr int kHeadRows = 8;           // of a block: the targets of one group
inline constexpr int kHeadWarps = 16;         // of a block
inline constexpr int kHeadMixtureArrays = 5;  // RowMixture (head_stages.cuh)
inline constexpr int kHeadOutputs = 64;       // of a map that a warp sums up, a lane two of them
inline constexpr int kHeadInputs = 8;         // whose weights a lane asks for at a time

constexpr int HeadPaddedInputs(int inputs) {
  return static_cast<int>(RoundUp(inputs, kHeadInputs));
}

// A map [outputs, inputs] is cut into columns of 64 outputs, padded with zeros, and lies as warps
// read it: [column][2 inputs at a time][lane][2 inputs][the lane's 2 outputs].
constexpr int HeadMapSize(int outputs, int inputs) {
  return static_cast<int>(RoundUp(outputs, kHeadOutputs)) * HeadPaddedInputs(inputs);
}
constexpr int HeadMapAt(int output, int input, int inputs) {
  return (output / kHeadOutputs * (HeadPaddedInputs(inputs) / 2) + input / 2) * 2 * kHeadOutputs +
         output % kHeadOutputs / 2 * 4 + input % 2 * 2 + output % 2;
}

// What a map is multiplied with lies in shared memory as [4 inputs at a time][row][4 inputs], and a
// gap, so that neither neighbouring inputs nor neighbouring rows share a bank.
constexpr int HeadInputsSize(int inputs) { return inputs / 4 * (kHeadRows + 1) * 4; }
constexpr int HeadInputAt(int row, int input) {
  return HeadInputsSize(input) + row * 4 + input % 4;
}

// How a block's warps share a map. While columns are fewer than warps, the sum over inputs is taken
// in parts, so that all warps ask for weights at once. What the parts are depends on the map alone,
// and so do a result's bits.
struct HeadMap {
  const float* weight = nullptr;
  const float* bias = nullptr;
  int outputs = 0;
  int batches = 0;  // of kHeadInputs inputs
  int columns = 0;
  int passes = 0;           // over all columns
  int columns_at_once = 1;  // a power of two
  int column_bits = 0;      // its logarithm
  int parts = kHeadWarps;
  int part_bits = 0;
};

constexpr HeadMap HeadMapOf(const float* weight, const float* bias, int outputs, int inputs) {
  HeadMap map = {.weight = weight, .bias = bias, .outputs = outputs};
  map.batches = HeadPaddedInputs(inputs) / kHeadInputs;
  map.columns = static_cast<int>(CeilDiv(outputs, kHeadOutputs));
  while (map.columns_at_once < map.columns && map.parts > 1) {
    map.columns_at_once *= 2;
    map.parts /= 2;
    ++map.column_bits;
  }
  map.passes = static_cast<int>(CeilDiv(map.columns, map.columns_at_once));
  while (1 << map.part_bits < map.parts) ++map.part_bits;
  return map;
}

// Offsets in floats; what holds more than floats begins at an even one.
struct HeadLayout {
  int z = 0;        // HeadInputsSize of the width, padded
  int hidden = 0;   // HeadInputsSize of the hidden elements, padded
  int parts = 0;    // [kHeadWarps][kHeadRows][kHeadOutputs]
  int mixture = 0;  // [kHeadRows][kHeadMixtureArrays][M] f64, where z, hidden and parts were
  int raw = 0;      // [kHeadRows][3M]
  int norm = 0;     // [width][2]: gamma, beta
  int b1 = 0;       // [hidden]
  int b2 = 0;       // [3M]
  int biases = 0;   // [3][M]: of means, stds, weights
  int draws = 0;    // [kHeadRows] StepDraw
  int paths = 0;    // PathTile
  int bytes = 0;
};

constexpr HeadLayout HeadLayoutOf(const HeadParams& p) {
  HeadLayout layout;
  layout.hidden = layout.z + HeadInputsSize(HeadPaddedInputs(p.width));
  layout.parts = layout.hidden + HeadInputsSize(HeadPaddedInputs(p.hidden));
  const int maps_end = layout.parts + kHeadWarps * kHeadRows * kHeadOutputs;
  const int mixture_end = layout.mixture + 2 * kHeadRows * kHeadMixtureArrays * p.components;
  layout.raw = maps_end < mixture_end ? mixture_end : maps_end;
  layout.norm = layout.raw + kHeadRows * 3 * p.components;
  layout.b1 = layout.norm + 2 * p.width;
  layout.b2 = layout.b1 + p.hidden;
  layout.biases = layout.b2 + 3 * p.components;
  layout.draws = static_cast<int>(RoundUp(layout.biases + 3 * p.components, 4));
  layout.paths = layout.draws + kHeadRows * static_cast<int>(sizeof(StepDraw) / 4);
  layout.bytes = 4 * (layout.paths + static_cast<int>(sizeof(PathTile) / 4));
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_HEAD_LAYOUT_H_
