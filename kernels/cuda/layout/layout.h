// How keys, values and weights lie in device memory: in the order in which tensor-core fragments
// consume them, so that every kernel reads one contiguous stream and rearranges nothing.
//
// The kernels are built on one instruction, mma m16n8k16: C[16, 8] += A[16, 16] B[16, 8], bfloat16
// operands, float32 sums. Of its operands, lane l of a warp holds, with g = l / 4 and j = l % 4:
//
//   A   rows g and g + 8, columns {2j, 2j+1} and {2j+8, 2j+9}
//   B   column g, rows {2j, 2j+1} and {2j+8, 2j+9}
//   C   rows g and g + 8, columns {2j, 2j+1}
//
// The order of the reduction index is free as long as A and B agree. Of 32 neighbouring indices
// lane j takes 8j..8j+7 (of 16: 4j..4j+3): one 16-byte load then fills the operands of two
// instructions, and row-major rows of 32 elements are already in fragment order.
//
// All counts are elements of bfloat16, held as uint16_t, unless a comment says otherwise.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_LAYOUT_H_

#include <cstdint>

#include "base/integer_math.h"

namespace chorale::kernels::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr int kWarpgroupWarps = 4;

// ---- Rows ----------------------------------------------------------------------------------
//
// Rows go through the model in tiles of 64, four groups of 16: the rows of one instruction. In a
// tile of paths, a path's two tokens are rows g and g + 8 of a group, so that the same four lanes
// own both, and read each key of the path's own buffer once for both.

inline constexpr int kTilePaths = 32;
inline constexpr int kTileRows = 64;
inline constexpr int kGroupRows = 16;
inline constexpr int kGroupPaths = 8;
inline constexpr int kTileGroups = kTileRows / kGroupRows;

enum class Role : int { kTarget = 0, kBuffer = 1 };

constexpr int TileRow(int path, Role role) {
  return path / kGroupPaths * kGroupRows + static_cast<int>(role) * kGroupPaths +
         path % kGroupPaths;
}

// Head widths that the kernels are built for. A model's narrower heads are padded with zeros.
constexpr bool IsSupportedHeadDim(int64_t head_dim) {
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}
constexpr int64_t PaddedHeadDim(int64_t head_dim) { return head_dim < 16 ? 16 : head_dim; }

// Width of the slices in which a head's elements are dealt out to lanes.
constexpr int HeadSlice(int head_dim) { return head_dim < 32 ? head_dim : 32; }

// ---- Context -------------------------------------------------------------------------------
//
// One layer of a context is [Hkv][blocks of 64 keys]; a block is the keys' K, then their V. The
// last block is filled up with keys whose V is zero and whose score is never used.

inline constexpr int kBlockKeys = 64;

constexpr int64_t ContextBlocks(int64_t rows) { return CeilDiv(rows, kBlockKeys); }
constexpr int64_t BlockSize(int64_t head_dim) { return int64_t{2} * kBlockKeys * head_dim; }
constexpr int64_t ContextLayerSize(int64_t rows, int64_t kv_heads, int64_t head_dim) {
  return kv_heads * ContextBlocks(rows) * BlockSize(head_dim);
}

// Of key `key` in its block: K as [8 keys at a time][slice of the head][8][slice].
constexpr int BlockKeyAt(int key, int d, int head_dim) {
  const int slice = HeadSlice(head_dim);
  return (key / 8 * (head_dim / slice) + d / slice) * 8 * slice + key % 8 * slice + d % slice;
}

// V as [16 keys at a time][16 columns at a time][lane][8 columns at a time][the lane's 4 keys].
constexpr int BlockValueAt(int key, int d, int head_dim) {
  const int k = key % 16;
  const int lane = d % 8 * 4 + k % 8 / 2;
  return kBlockKeys * head_dim + (key / 16 * (head_dim / 16) + d / 16) * 256 + lane * 8 +
         d % 16 / 8 * 4 + k / 8 * 2 + k % 2;
}

// ---- Buffer --------------------------------------------------------------------------------
//
// One layer of a tile's buffers is [Hkv][position][K, V][path][Dh]: what the paths of a group need
// of one position lies together. The elements of a V are dealt out as a lane's sums are.

constexpr int64_t BufferPaths(int64_t paths) { return RoundUp(paths, kGroupPaths); }
constexpr int64_t BufferLayerSize(int64_t capacity, int64_t buffer_paths, int64_t kv_heads,
                                  int64_t head_dim) {
  return kv_heads * capacity * 2 * buffer_paths * head_dim;
}
constexpr int64_t BufferKeyAt(int64_t kv_head, int64_t position, int64_t path, int64_t capacity,
                              int64_t buffer_paths, int64_t head_dim) {
  return ((kv_head * capacity + position) * 2 * buffer_paths + path) * head_dim;
}
// Where column d stands among the Dh elements of a V, which begin buffer_paths * Dh behind its K.
constexpr int BufferValueColumn(int d, int head_dim) {
  const int slice = HeadSlice(head_dim);
  return d / slice * slice + d % 8 / 2 * (slice / 4) + d % slice / 8 * 2 + d % 2;
}

// ---- Weights -------------------------------------------------------------------------------
//
// A matrix W [out, in] is cut into weight tiles of 128 outputs by 128 inputs, padded with zeros. A
// kernel consumes a fixed sequence of weight tiles, which lie behind each other: [weight tile][8
// outputs at a time][32 inputs at a time][lane][8]. A warp computes 8 or 16 outputs of a weight
// tile.

inline constexpr int kWeightTileOutputs = 128;
inline constexpr int kWeightTileInputs = 128;
inline constexpr int kWeightTileSize = kWeightTileOutputs * kWeightTileInputs;

constexpr int64_t WeightTiles(int64_t n) { return CeilDiv(n, kWeightTileInputs); }

constexpr int WeightTileAt(int output, int input) {
  const int lane = output % 8 * 4 + input % 32 / 8;
  return (output / 8 * 4 + input / 32) * 256 + lane * 8 + input % 8;
}

// What weight tiles are multiplied with lies in shared memory as lanes take it: [16 rows at a
// time][32 inputs at a time][half of a lane's inputs][position of the lane][rows g and g + 8 of two
// inputs, of two more]. Lanes have their positions such that no bank is asked twice at a time:
// neither by a warp that reads what each lane takes, nor by one that writes a row and the one 8
// below it, nor by one that writes 8 columns of 16 rows.
constexpr int MmaOperandLane(int g, int j, int half) { return (g * 4 + (j ^ g / 2)) ^ half * 6; }
constexpr int MmaOperandAt(int row, int input, int padded_inputs) {
  const int half = input % 8 / 4;
  return ((row / 16 * (padded_inputs / 32) + input / 32) * 2 + half) * 256 +
         MmaOperandLane(row % 8, input % 32 / 8, half) * 8 + input % 4 / 2 * 4 + row % 16 / 8 * 2 +
         input % 2;
}

// ---- Products of a warpgroup ---------------------------------------------------------------
//
// The row kernel can multiply with instructions of four warps (device.cuh, MakeSmemDescriptor),
// which read weights and rows from shared memory by themselves: 64 outputs by 16 inputs of up to 64
// rows. The inputs of one such instruction, and their order, are those of one mma above, so that
// sums have the same bits: of 32 inputs, instruction s has element i of lane j for i in 4s..4s+3,
// the first two in its first half, the last two in its second.

// Which 16 inputs an input belongs to, which half of them, and its position there.
constexpr int WgmmaStepOf(int input) { return input / 32 * 2 + input % 8 / 4; }
constexpr int WgmmaStepHalf(int input) { return input % 4 / 2; }
constexpr int WgmmaStepElement(int input) { return input % 32 / 8 * 2 + input % 2; }

// A weight tile in wgmma tiles of 64 outputs by 64 inputs: [output half][input half][16 inputs at a
// time][half][8 outputs at a time][8][8 inputs]. Of 16 outputs, the even ones are the first 8 rows
// of the instruction: one lane then has the sums of two neighbouring outputs.
inline constexpr int kWgmmaTileSize = kWeightTileSize / 4;
inline constexpr int kWgmmaTileOutputs = 64;
inline constexpr int kWgmmaTileInputs = 64;
inline constexpr int kWgmmaTileHalfBytes = kWgmmaTileOutputs * 16;  // of 8 inputs

constexpr int WgmmaTileAt(int output, int input) {
  const int row = output % kWgmmaTileOutputs / 16 * 16 + output % 2 * 8 + output % 16 / 2;
  const int half_product = WgmmaStepOf(input % kWgmmaTileInputs) * 2 + WgmmaStepHalf(input);
  return (output / kWgmmaTileOutputs * 2 + input / kWgmmaTileInputs) * kWgmmaTileSize +
         (half_product * kWgmmaTileOutputs + row) * 8 + WgmmaStepElement(input);
}

// Rows that a weight tile is multiplied with: [half][16 inputs at a time][rows, and a gap][8], the
// gap so that neighbouring inputs share no bank.
constexpr int WgmmaOperandRowsBytes(int rows) { return (rows + 1) * 16; }
constexpr int WgmmaOperandSize(int rows, int padded_inputs) {
  return padded_inputs / 8 * (rows + 1) * 8;
}
constexpr int WgmmaOperandAt(int row, int input, int rows, int padded_inputs) {
  return ((WgmmaStepHalf(input) * (padded_inputs / 16) + WgmmaStepOf(input)) * (rows + 1) + row) *
             8 +
         WgmmaStepElement(input);
}

// ---- Context splits ------------------------------------------------------------------------
//
// Attention over a context is done in splits of keys, each with a softmax state of its own; the
// states are merged in the order of the splits. Whether one block does all splits or many blocks
// one each therefore changes no bit of the result. How long a split is depends on the context
// alone: short, so that few rows keep many multiprocessors busy, but not so short that there is
// more to merge than to compute.
//
// A path's own buffer is shared out among the splits, too: its positions, a few at a time, go to
// the splits in turn, so that no split is left with all of them, and join the split's state behind
// its keys of the context.

inline constexpr int kMinSplitBlocks = 2;
inline constexpr int kMinSplits = 4;
inline constexpr int kMaxSplits = 32;

constexpr int64_t SplitBlocks(int64_t rows) {
  const int64_t blocks = CeilDiv(ContextBlocks(rows), kMaxSplits);
  return blocks < kMinSplitBlocks ? kMinSplitBlocks : blocks;
}

// The last ones of a short context have none of it, only their share of a path's buffer.
constexpr int64_t ContextSplits(int64_t rows) {
  const int64_t splits = CeilDiv(ContextBlocks(rows), SplitBlocks(rows));
  return splits < kMinSplits ? kMinSplits : splits;
}

// The most splits that a context of up to that many rows has. A longer context can have fewer.
constexpr int64_t MaxContextSplits(int64_t rows) {
  const int64_t splits = CeilDiv(ContextBlocks(rows), kMinSplitBlocks);
  return splits < kMinSplits ? kMinSplits : splits < kMaxSplits ? splits : kMaxSplits;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_LAYOUT_H_
