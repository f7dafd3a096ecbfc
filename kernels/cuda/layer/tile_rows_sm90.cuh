// The rows of a tile in the registers of a block of TileLayerKernel (compute capability 9.0).
#ifndef CHORALE_KERNELS_CUDA_LAYER_TILE_ROWS_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_TILE_ROWS_SM90_CUH_

#include <bit>

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/smem_tile_sm90.h"
#include "kernels/cuda/layer/store_qkv.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/layout/weight_tiles.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// A lane's share of a tile's rows. Warpgroup h has half h of the 128 columns, each of its warps 16
// rows: a lane 16 columns of rows g and g + 8, in two blocks of 8 columns. These are the elements
// that it has of the sums of wgmma with rows as M, and what it computes of the operand of the next
// GEMM is its own fragment of it (WgmmaColumnTileAt). The other half of the operand comes from the
// other warpgroup, through shared memory.
//
// kWidth: D, if it is known to the compiler, or 0.
template <int kHeadDim, int kWidth = 0>
class TileRows {
  static constexpr int kHeadShift = std::bit_width(unsigned{kHeadDim}) - 1;
  static constexpr int kSteps = kWeightTileInputs / 16;  // of 16 inputs, of a weight tile
  static constexpr int kFragmentsSize = kOperandTileSize / kSteps;  // of all lanes, of a k-step

 public:
  static constexpr int kHalfSteps = kSteps / kConsumerWarpgroups;
  static constexpr int kBlocks = kWgmmaTileOutputs / 32;  // of 8 columns of a lane
  static constexpr int kElements = 2 * 8 * kBlocks;       // of a lane, in two rows
  using Elements = float[kElements];
  using Half = uint32_t[kHalfSteps][4];  // of an operand: fragments of the lane

  Elements x;
  // The operand of the next GEMM: the half of this warpgroup's columns, and the other.
  Half own;
  Half other;

  // `tile` must outlive this object; it is read after GridDepWait alone.
  __device__ __forceinline__ TileRows(const LayerParams& p, const TileSmem& shared,
                                      const Tile& tile)
      : p_(p),
        shared_(shared),
        tile_(tile),
        tile_index_(static_cast<int>(blockIdx.x)),
        warpgroup_(WarpgroupIndex()),
        warp_(WarpIndex() % kWarpgroupWarps),
        lane_(LaneIndex()) {}

  // Computes anew what addresses follow from. Else, in a kernel short of registers, the compiler
  // computes addresses once, where they are of no use yet, and keeps them in local memory, which
  // shared memory leaves almost no cache.
  __device__ __forceinline__ void Renew() {
    int thread = ThreadIndex();
    PinValue(thread);
    warpgroup_ = thread / (kWarpgroupWarps * kWarpSize);
    warp_ = thread / kWarpSize % kWarpgroupWarps;
    lane_ = thread % kWarpSize;
    tile_index_ = static_cast<int>(blockIdx.x);
    PinValue(tile_index_);
  }

  __device__ __forceinline__ int warpgroup() const { return warpgroup_; }
  __device__ __forceinline__ int width() const { return kWidth > 0 ? kWidth : p_.shape.width; }

  // A barrier of the two warps, one of each warpgroup, that have the same rows. No others exchange
  // anything.
  __device__ __forceinline__ void Sync() const {
    constexpr int kBarrier = 1;  // and one for each further pair of warps
    NamedBarrierSync<kConsumerWarpgroups * kWarpSize>(kBarrier + warp_);
  }

  // ---- Where a lane's elements are -----------------------------------------------------------

  // The index of column `column` of 8 of a block, in row g (half 0) or g + 8.
  static constexpr int At(int block, int half, int column) {
    return 16 * block + column / 2 * 4 + 2 * half + column % 2;
  }
  // The first column of a block, in a weight tile.
  __device__ __forceinline__ int ColumnOf(int block) const {
    return warpgroup_ * kWgmmaTileOutputs + 32 * block + lane_ % 4 * 8;
  }
  __device__ __forceinline__ bool HasColumn(int column) const {
    return kWidth == kWeightTileInputs || column < width();
  }
  __device__ __forceinline__ int RowOf(int half) const {
    return warp_ * kGroupRows + lane_ / 4 + 8 * half;
  }
  // The lane's rows are this pair's, in a tile of paths.
  __device__ __forceinline__ int pair() const { return warp_ * kGroupPaths + lane_ / 4; }
  // Index among the rows of all tiles.
  __device__ __forceinline__ int64_t GlobalRow(int half) const {
    return static_cast<int64_t>(tile_index_) * kTileRows + RowOf(half);
  }
  __device__ __forceinline__ bool InUse(int half) const {
    return RowOf(half) < tile_.groups * kGroupRows;
  }

  // ---- Operands --------------------------------------------------------------------------------

  // x, or other elements, as the warpgroup's half of an operand: rounded to bf16.
  __device__ __forceinline__ void RoundX() { Round(x, own); }
  __device__ __forceinline__ static void Round(const Elements& elements, Half& words) {
#pragma unroll
    for (int step = 0; step < kHalfSteps; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const int at = 8 * step + 2 * word;
        words[step][word] = PackBf16(elements[at], elements[at + 1]);
      }
    }
  }

  // The same of words in the order of the columns of a wgmma's sums, as they come from attention:
  // of 32 columns, lane j has 2j and 2j + 1 of every 8 neighbouring ones, and needs 8j to 8j + 7.
  // `words`: [8 columns at a time][half].
  __device__ __forceinline__ void FillOperandFromSums(const uint32_t (&words)[4 * kBlocks][2]) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) w[i] = words[4 * block + i][half];
        TransposeOverQuad(w);
#pragma unroll
        for (int i = 0; i < 4; ++i) own[2 * block + i / 2][i % 2 * 2 + half] = w[i];
      }
    }
  }

  // Where the warpgroups exchange their halves of an operand: x or attention; hidden units that are
  // the inputs of a weight tile.
  __device__ __forceinline__ uint16_t* operand() const { return shared_.operand.At(DynamicSmem()); }
  __device__ __forceinline__ uint16_t* hidden(int weight_tile) const {
    return shared_.hidden.At(DynamicSmem()) + weight_tile * kOperandTileSize;
  }
  __device__ __forceinline__ void StoreHalf(uint16_t* exchange, const Half& words) const {
#pragma unroll
    for (int step = 0; step < kHalfSteps; ++step) {
      const uint32_t(&w)[4] = words[step];
      StoreShared(FragmentOf(exchange, warpgroup_ * kHalfSteps + step),
                  Words4{w[0], w[1], w[2], w[3]});
    }
  }
  __device__ __forceinline__ void LoadOwn(uint16_t* exchange) {
    LoadHalf(exchange, warpgroup_, own);
  }
  // Contains a barrier, after which the other warpgroup has stored its half.
  __device__ __forceinline__ void LoadOther(uint16_t* exchange) {
    Sync();
    LoadHalf(exchange, 1 - warpgroup_, other);
  }

  // Keeps half of the elements of x in shared memory, where the other warpgroup's half of the
  // operand was, which this lane alone reads. REQUIRES: LoadOther(operand()) was called, and nobody
  // stores to operand() before UnstashX.
  __device__ __forceinline__ void StashX() const {
#pragma unroll
    for (int i = 0; i < kHalfSteps; ++i) {
      const float* const from = x + kStashed + 4 * i;
      StoreShared(FragmentOf(operand(), (1 - warpgroup_) * kHalfSteps + i),
                  Floats4{from[0], from[1], from[2], from[3]});
    }
  }
  __device__ __forceinline__ void UnstashX() {
#pragma unroll
    for (int i = 0; i < kHalfSteps; ++i) {
      const auto four = LoadAs<Floats4>(FragmentOf(operand(), (1 - warpgroup_) * kHalfSteps + i));
#pragma unroll
      for (int k = 0; k < 4; ++k) x[kStashed + 4 * i + k] = four.v[k];
    }
  }

  // ---- Rows in global memory -----------------------------------------------------------------

  // x of the lane's first element, and where another block begins: one address, and offsets that
  // may be known to the compiler.
  __device__ __forceinline__ float* XOfLane() const {
    return p_.x + GlobalRow(0) * width() + ColumnOf(0);
  }
  __device__ __forceinline__ int XOffset(int block, int half) const {
    return 8 * half * width() + 32 * block;
  }

  // Also rows that are not in use; no output depends on those.
  __device__ __forceinline__ void LoadX() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const int column = ColumnOf(block);
        const float* const from = XOfLane() + XOffset(block, half);
#pragma unroll
        for (int quad = 0; quad < 2; ++quad) {
          Floats4 four = {};
          if (HasColumn(column)) four = LoadCg<Floats4>(from + 4 * quad);
#pragma unroll
          for (int i = 0; i < 4; ++i) x[At(block, half, 4 * quad + i)] = four.v[i];
        }
      }
    }
  }

  __device__ __forceinline__ void StoreX() const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!InUse(half)) continue;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const int column = ColumnOf(block);
        if (!HasColumn(column)) continue;
        float* const to = XOfLane() + XOffset(block, half);
#pragma unroll
        for (int quad = 0; quad < 2; ++quad) {
          Floats4 four;
#pragma unroll
          for (int i = 0; i < 4; ++i) four.v[i] = x[At(block, half, 4 * quad + i)];
          StoreGlobal(to + 4 * quad, four);
        }
      }
    }
  }

  // Saves x for LoadSavedX in the memory of the tile's rows, but in the order of the lanes: a store
  // of a warp writes whole lines. A barrier must come between LoadSavedX and StoreX.
  __device__ __forceinline__ void SaveX() const {
#pragma unroll
    for (int i = 0; i < kElements / 4; ++i) {
      StoreGlobal(SavedX() + i * (4 * kWarpSize),
                  Floats4{x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]});
    }
  }
  __device__ __forceinline__ void LoadSavedX() {
#pragma unroll
    for (int i = 0; i < kElements / 4; ++i) {
      const auto four = LoadCg<Floats4>(SavedX() + i * (4 * kWarpSize));
#pragma unroll
      for (int k = 0; k < 4; ++k) x[4 * i + k] = four.v[k];
    }
  }

  // The warpgroup's half of the operand: attention.
  __device__ __forceinline__ void FillOperandWithAttention() {
    const int width = p_.shape.query_width();
    Words4 rows[kBlocks][2] = {};
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = ColumnOf(block);
        if (column >= width) continue;
        rows[block][half] = LoadCg<Words4>(p_.attended + GlobalRow(half) * width + column);
      }
    }
#pragma unroll
    for (int step = 0; step < kHalfSteps; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        own[step][word] = rows[step / 2][word % 2].w[step % 2 * 2 + word / 2];
      }
    }
  }

  // Stores q, K and V, of a weight tile of outputs.
  __device__ __forceinline__ void StoreQkv(int tile, const Elements& qkv) const {
    const QkvRows rows = {tile_, tile_index_, /*first_row=*/0, tile_.groups * kGroupRows};
    QkvTarget to(p_, kHeadShift);
    to.shape.head_dim = kHeadDim;  // known to the compiler, for the arithmetic of addresses
    ForPieces(qkv, [&](int half, int column, const Words4& words) {
      column += tile * kWeightTileOutputs;
      if (column < p_.shape.qkv_width()) StoreQkvWords(rows, to, RowOf(half), column, words);
    });
  }

  // Calls store(half, column, words) for every 8 neighbouring columns of the lane's elements,
  // rounded to bf16.
  template <typename Store>
  __device__ __forceinline__ void ForPieces(const Elements& elements, const Store& store) const {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Words4 words;
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          words.w[word] = PackBf16(elements[At(block, half, 2 * word)],
                                   elements[At(block, half, 2 * word + 1)]);
        }
        store(half, ColumnOf(block), words);
      }
    }
  }

 private:
  // Exchanges words of the four lanes of a row: lane j gets the j-th word of each.
  __device__ __forceinline__ static void TransposeOverQuad(uint32_t (&w)[4]) {
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
      const bool upper = (LaneIndex() & bit) != 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((i & bit) != 0) continue;
        uint32_t& low = w[i];
        uint32_t& high = w[i | bit];
        const uint32_t other = __shfl_xor_sync(kAllLanes, upper ? low : high, bit);
        low = upper ? other : low;
        high = upper ? high : other;
      }
    }
  }

  static constexpr int kStashed = kElements - 4 * kHalfSteps;  // the first one

  // The lane's first 16 bytes: see SaveX.
  __device__ __forceinline__ float* SavedX() const {
    static_assert(kWidth == kWeightTileOutputs);
    return p_.x + static_cast<int64_t>(tile_index_) * (kTileRows * kWidth) +
           (warpgroup_ * kWarpgroupWarps + warp_) * (kElements * kWarpSize) + lane_ * 4;
  }
  // The lane's fragment of a k-step of an operand.
  __device__ __forceinline__ uint16_t* FragmentOf(uint16_t* operand, int step) const {
    return operand + step * kFragmentsSize + (warp_ * kWarpSize + lane_) * 8;
  }
  __device__ __forceinline__ void LoadHalf(uint16_t* operand, int half, Half& to) const {
#pragma unroll
    for (int step = 0; step < kHalfSteps; ++step) {
      const auto words = LoadAs<Words4>(FragmentOf(operand, half * kHalfSteps + step));
#pragma unroll
      for (int word = 0; word < 4; ++word) to[step][word] = words.w[word];
    }
  }

  const LayerParams& p_;
  const TileSmem& shared_;
  const Tile& tile_;
  int tile_index_;
  int warpgroup_;
  int warp_;  // of the warpgroup
  int lane_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_TILE_ROWS_SM90_CUH_
