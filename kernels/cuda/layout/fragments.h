// Fragments of tensor-core instructions, and the order of matrix operands in shared memory.
//
// The kernels are built on one instruction, mma m16n8k16: C[16, 8] += A[16, 16] B[16, 8], bfloat16
// operands, float32 sums. Lane l of a warp holds these elements, with g = l / 4 and j = l % 4:
//
//   A   rows g and g + 8, columns {2j, 2j+1} and {2j+8, 2j+9}
//   B   column g, rows {2j, 2j+1} and {2j+8, 2j+9}
//   C   rows g and g + 8, columns {2j, 2j+1}
//
// The order of the reduction index is free as long as A and B agree. Of 32 neighbouring indices
// lane j takes 8j..8j+7 (of 16: 4j..4j+3): one 16-byte load then fills the operands of two
// instructions, and row-major rows of 32 elements are already in fragment order.
//
// Offsets and sizes are in elements of bfloat16, stored as uint16_t, unless a comment says bytes.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_FRAGMENTS_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_FRAGMENTS_H_

namespace chorale::kernels::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr int kWarpgroupWarps = 4;

// The major compute capability that has wgmma: no other one has it, older or newer.
inline constexpr int kWgmmaComputeMajor = 9;

// ---- Operand A of mma ----------------------------------------------------------------------
//
// Rows in shared memory, in the order in which lanes load them: [16 rows at a time][32 inputs at a
// time][half of a lane's inputs][lane][rows g and g + 8 of two inputs, then of two more]. The order
// of the lanes avoids bank conflicts: for a warp that loads its fragments, that stores a row and
// the row 8 below it, or that stores 8 columns of 16 rows.
constexpr int MmaOperandLane(int g, int j, int half) { return (g * 4 + (j ^ g / 2)) ^ half * 6; }
constexpr int MmaOperandAt(int row, int input, int padded_inputs) {
  const int half = input % 8 / 4;
  return ((row / 16 * (padded_inputs / 32) + input / 32) * 2 + half) * 256 +
         MmaOperandLane(row % 8, input % 32 / 8, half) * 8 + input % 4 / 2 * 4 + row % 16 / 8 * 2 +
         input % 2;
}

// ---- wgmma ---------------------------------------------------------------------------------
//
// wgmma multiplies 64 outputs by 16 inputs of up to 64 rows, with both operands in shared memory
// (ptx/smem_descriptor.cuh). One instruction takes the same 16 inputs as one mma, in the same
// order, so that sums have the same bits: of 32 inputs, instruction s takes elements 4s to 4s + 3
// of each lane j, the first two in its first half, the last two in its second.

// The k-step of 16 inputs that an input belongs to, the half of that k-step, and the index there.
constexpr int WgmmaStepOf(int input) { return input / 32 * 2 + input % 8 / 4; }
constexpr int WgmmaStepHalf(int input) { return input % 4 / 2; }
constexpr int WgmmaStepElement(int input) { return input % 32 / 8 * 2 + input % 2; }

// Rows in shared memory: [half][16 inputs at a time][rows, and one row of padding][8]. The padding
// avoids bank conflicts between neighbouring inputs.
constexpr int WgmmaOperandRowsBytes(int rows) { return (rows + 1) * 16; }
constexpr int WgmmaOperandSize(int rows, int padded_inputs) {
  return padded_inputs / 8 * (rows + 1) * 8;
}
constexpr int WgmmaOperandAt(int row, int input, int rows, int padded_inputs) {
  return ((WgmmaStepHalf(input) * (padded_inputs / 16) + WgmmaStepOf(input)) * (rows + 1) + row) *
             8 +
         WgmmaStepElement(input);
}

// Rows of 32 elements, 64 bytes, as both instructions read them: [8 rows][32], where the 16-byte
// piece p of row r lies in place p ^ r / 2. That is the 64-byte swizzle of wgmma
// (MakeSwizzledDescriptor), by which 8 lanes, or wgmma, read the same piece of 8 rows without bank
// conflicts. A wgmma takes 16 neighbouring elements.
inline constexpr int kSwizzledRow = 32;
inline constexpr int kSwizzledRows = 8 * kSwizzledRow;
constexpr int SwizzledAt(int row, int element) {
  return row % 8 * kSwizzledRow + ((element % kSwizzledRow / 8) ^ (row % 8 / 2)) * 8 + element % 8;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_FRAGMENTS_H_
