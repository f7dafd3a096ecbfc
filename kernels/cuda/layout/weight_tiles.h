// Weight matrices of a layer in device memory, in the order in which the layer kernels read them:
// bfloat16, stored as uint16_t. Offsets and sizes are in elements unless a comment says bytes.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_WEIGHT_TILES_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_WEIGHT_TILES_H_

#include <cstdint>

#include "base/integer_math.h"
#include "kernels/cuda/layout/fragments.h"

namespace chorale::kernels::cuda {

// A matrix W [out, in] is cut into weight tiles of 128 outputs by 128 inputs, padded with zeros. A
// kernel reads a fixed sequence of contiguous weight tiles, each of them [8 outputs at a time][32
// inputs at a time][lane][8]. A warp computes 8 or 16 outputs of a weight tile.
inline constexpr int kWeightTileOutputs = 128;
inline constexpr int kWeightTileInputs = 128;
inline constexpr int kWeightTileSize = kWeightTileOutputs * kWeightTileInputs;

// Weight tiles along a side of n outputs or inputs.
constexpr int64_t WeightTiles(int64_t n) { return CeilDiv(n, kWeightTileInputs); }

constexpr int WeightTileAt(int output, int input) {
  const int lane = output % 8 * 4 + input % 32 / 8;
  return (output / 8 * 4 + input / 32) * 256 + lane * 8 + input % 8;
}

// The same weight tile as wgmma tiles of 64 outputs by 64 inputs: [output half][input half][16
// inputs at a time][half][8 outputs at a time][8][8 inputs]. Of 16 outputs, the even ones are the
// first 8 rows of the instruction: a lane then holds the sums of two neighbouring outputs.
inline constexpr int kWgmmaTileSize = kWeightTileSize / 4;
inline constexpr int kWgmmaTileOutputs = 64;
inline constexpr int kWgmmaTileInputs = 64;
inline constexpr int kWgmmaTileHalfBytes = kWgmmaTileOutputs * 16;  // of 8 inputs

constexpr int WgmmaTileAt(int output, int input) {
  const int row = output % kWgmmaTileOutputs / 16 * 16 + output % 2 * 8 + output % 16 / 2;
  const int half_step = WgmmaStepOf(input % kWgmmaTileInputs) * 2 + WgmmaStepHalf(input);
  return (output / kWgmmaTileOutputs * 2 + input / kWgmmaTileInputs) * kWgmmaTileSize +
         (half_step * kWgmmaTileOutputs + row) * 8 + WgmmaStepElement(input);
}

// A wgmma tile for the other operand, whose rows become columns of the sums: of 32 outputs, a lane
// then holds the sums of outputs 8j to 8j + 7, which are its inputs of the next GEMM.
constexpr int WgmmaColumnTileAt(int output, int input) {
  const int row = output % 8 / 2 * 8 + output % 32 / 8 * 2 + output % 2;
  const int half_step = WgmmaStepOf(input % kWgmmaTileInputs) * 2 + WgmmaStepHalf(input);
  return (output / kWgmmaTileOutputs * 2 + input / kWgmmaTileInputs) * kWgmmaTileSize +
         (half_step * kWgmmaTileOutputs + output % kWgmmaTileOutputs / 32 * 32 + row) * 8 +
         WgmmaStepElement(input);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_WEIGHT_TILES_H_
