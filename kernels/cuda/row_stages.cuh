// What the row kernel does to the rows of one block, stage by stage.
#ifndef CHORALE_KERNELS_CUDA_ROW_STAGES_CUH_
#define CHORALE_KERNELS_CUDA_ROW_STAGES_CUH_

#include "kernels/cuda/chunk_state.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/leave_to_buffer.cuh"
#include "kernels/cuda/normalize_rows.cuh"
#include "kernels/cuda/row_layer.h"
#include "kernels/cuda/row_layout.h"
#include "kernels/cuda/weight_stream.cuh"

namespace chorale::kernels::cuda {

struct RowKernelParams {
  RowLayerParams rows;
  RowLayout shared;
  int32_t block_rows;
};

// The products of a layer, in their order.
enum class RowProduct : int {
  kAttention,   // x = LN2(x + Wo attention)
  kUp,          // wide = gelu(W1 x + b1)
  kDown,        // x = LN3(x + W2 wide + b2)
  kFeature,     // x = LN1(x + P x)
  kProjection,  // wide = (Wq over Wk over Wv) x
};

// The rows of one block on their way through the stages. MergeChunks, FillOperand and Multiply end
// with all their writes to shared memory done for the whole block; what only loads, or stores a few
// elements, does not.
//
// All products go through the same few hundred instructions, and loops over slabs are not unrolled:
// every instruction of this kernel runs a few times in a launch, and code that the instruction
// cache has no room for is fetched again in every launch.
template <int kGroups, int kPanels, int kWarps>
class Rows {
 public:
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kThreads = kWarps * kWarp;

  // Reads of the tile only what no kernel changes.
  __device__ __forceinline__ explicit Rows(const RowKernelParams& params)
      : p_(params.rows),
        operand_inputs_(params.shared.operand_inputs),
        wide_inputs_(params.shared.wide_inputs),
        x_stride_(params.shared.x_stride),
        head_shift_(params.shared.head_shift),
        operand_(reinterpret_cast<uint16_t*>(Shared() + params.shared.operand)),
        wide_(reinterpret_cast<uint16_t*>(Shared() + params.shared.wide)),
        x_(reinterpret_cast<float*>(Shared() + params.shared.x)),
        finish_(reinterpret_cast<float*>(Shared() + params.shared.finish)),
        leave_(reinterpret_cast<float*>(Shared() + params.shared.leave)),
        rows_(params.block_rows),
        tile_index_(blockIdx.x / (kTileRows / rows_)),
        first_row_(blockIdx.x % (kTileRows / rows_) * rows_),
        slots_(p_.split == ChunkSplit::kTogether
                   ? 1
                   : static_cast<int>(
                         ContextChunks(LoadFresh<int32_t>(&p_.tiles[tile_index_].context_rows)))) {}

  // Asks for the vectors that are added and multiplied with.
  __device__ __forceinline__ void FetchFinishVectors(const float* vectors) const {
    Fetch(finish_, vectors, FinishVectorsSize(p_));
  }
  __device__ __forceinline__ void FetchLeaveVectors(const float* vectors) const {
    Fetch(leave_, vectors, LeaveVectorsSize(p_));
  }

  // Asks for x. Rows that are not in use are read all the same, so that nothing waits for the tile;
  // nothing that is kept depends on them.
  __device__ __forceinline__ void Load() {
    const float* x = p_.x + Global(0) * p_.width;
    for (int row = ThreadIndex() / kWarp; row < rows_; row += kWarps) {
      for (int column = ThreadIndex() % kWarp * 4; column < p_.width; column += kWarp * 4) {
        CopyLater16(x_ + row * x_stride_ + column, x + row * p_.width + column);
      }
    }
    CommitCopies();
  }

  __device__ __forceinline__ bool idle() const { return rows_in_use_ <= 0; }

  // As the tile is from now on. It stays where it is.
  __device__ __forceinline__ void SetTile(const Tile* tile) {
    tile_ = tile;
    rows_in_use_ = min(rows_, tile->groups * kGroupRows - first_row_);
  }

  __device__ __forceinline__ int tile_index() const { return tile_index_; }

  // operand = x.
  __device__ __forceinline__ void FillOperand() {
    WaitForCopies<0>();
    Sync();
    for (int row = ThreadIndex() / kWarp; row < kRows; row += kWarps) {
      for (int column = ThreadIndex() % kWarp * 4; column < SlabsOf(p_.width) * kSlabInputs;
           column += kWarp * 4) {
        Floats4 x = {};
        if (column < p_.width) x = LoadAs<Floats4>(x_ + row * x_stride_ + column);
        StoreOperand(row, column, x);
      }
    }
    Sync();
  }

  // operand = attention, from the states of its chunks in their order.
  __device__ __forceinline__ void MergeChunks() {
    // As many loads in flight as registers allow, of rows or of chunks.
    if (slots_ == 1) {
      MergeRows<kRowsTogether, 1>();
    } else {
      MergeRows<1, 8>();
    }
    WaitForCopies<0>();
    Sync();
  }

  // With the next slabs of `weights`, of which each warp computes kTiles times 8 outputs. The
  // normalized x also goes back to global memory if `keep`.
  __device__ __forceinline__ void Multiply(RowProduct product, WeightStream<kWarps>& weights,
                                           bool keep) {
    const bool up = product == RowProduct::kUp;
    const bool down = product == RowProduct::kDown;
    const bool into_x = !up && product != RowProduct::kProjection;
    const uint16_t* operand = down ? wide_ : operand_;
    const int padded_inputs = down ? wide_inputs_ : operand_inputs_;
    const float* bias = up ? finish_ + 5 * p_.width : down ? finish_ + 4 * p_.width : nullptr;
    const int inputs = SlabsOf(InputsOf(product));
    const int outputs = OutputsOf(product);
    constexpr int kTiles = WeightStream<kWarps>::kTiles;
    const int lane_column = ThreadIndex() / kWarp * (8 * kTiles) + ThreadIndex() % 4 * 2;
    Fragments<kGroups, 8 / kGroups> fragments;
#pragma unroll 1
    for (int first = 0; first < outputs; first += kSlabOutputs) {
      Sums<kGroups> sums[kTiles];
#pragma unroll 1
      for (int k = 0; k < inputs; ++k) {
        // A slab's inputs take 4 times 32 of each group of rows.
        weights.AddSlab(operand + k * kSlabInputs * kGroupRows, padded_inputs * kGroupRows,
                        inputs == 1 && first > 0, fragments, sums);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int column = first + lane_column + tile * 8;
        if (!into_x) {
          StoreWide(column, bias, sums[tile]);
        } else if (column < outputs) {
          AddToX(column, bias, sums[tile]);
        }
      }
    }
    Sync();
    if (into_x) Normalize(product, keep);
  }

  // Brings q, K and V of a layer from `wide` to where they go: a lane 8 columns of rows g and g + 8
  // at a time.
  __device__ __forceinline__ void Leave(int layer) const {
    const int row = ThreadIndex() % kWarp / 4;
    const int columns = ProjectedWidth(p_);
#pragma unroll 1
    for (int i = ThreadIndex() / kWarp; i / kGroups * 32 < columns; i += kWarps) {
      const int first = i % kGroups * kGroupRows;
      const int column = i / kGroups * 32 + ThreadIndex() % 4 * 8;
      if (column >= columns) continue;
      const uint16_t* from = wide_ + OperandAt(first + row, column, wide_inputs_);
      const Words4 a = LoadAs<Words4>(from);
      const Words4 b = LoadAs<Words4>(wide_ + OperandAt(first + row, column + 4, wide_inputs_));
      LeaveWords(layer, first + row, column, {a.w[0], a.w[2], b.w[0], b.w[2]});
      LeaveWords(layer, first + row + 8, column, {a.w[1], a.w[3], b.w[1], b.w[3]});
    }
  }

  // Waits for all threads that work on the rows.
  __device__ __forceinline__ static void Sync() { SyncThreads<kThreads>(kRowsBarrier); }

 private:
  static constexpr int kRowsBarrier = 1;

  // Rows that a warp merges at a time, kWarps rows apart.
  static constexpr int kRowsTogether = kRows >= 4 * kWarps ? 4 : kRows >= 2 * kWarps ? 2 : 1;

  __device__ __forceinline__ static void Fetch(float* to, const float* from, int size) {
    FetchVectors<kThreads>(to, from, size);
  }

  // x += sums + bias, of columns `column` and column + 1; `bias` may be null.
  __device__ __forceinline__ void AddToX(int column, const float* bias,
                                         const Sums<kGroups>& sums) const {
    Floats2 more = {};
    if (bias != nullptr) more = LoadAs<Floats2>(bias + column);
    float* x = x_ + ThreadIndex() % kWarp / 4 * x_stride_ + column;
    Floats2 pairs[2 * kGroups];
#pragma unroll
    for (int half = 0; half < 2 * kGroups; ++half) {
      pairs[half] = LoadAs<Floats2>(x + half * 8 * x_stride_);
    }
#pragma unroll
    for (int half = 0; half < 2 * kGroups; ++half) {
      const Floats2& pair = pairs[half];
      const float first = sums.Total(half / 2, half % 2 * 2);
      const float second = sums.Total(half / 2, half % 2 * 2 + 1);
      StoreAs<Floats2>(x + half * 8 * x_stride_,
                       {pair.v[0] + (first + more.v[0]), pair.v[1] + (second + more.v[1])});
    }
  }

  // wide = sums; with a bias, wide = gelu(sums + bias). As AddToX.
  __device__ __forceinline__ void StoreWide(int column, const float* bias,
                                            const Sums<kGroups>& sums) const {
    const int group = wide_inputs_ * kGroupRows;  // elements
    uint16_t* wide = wide_ + OperandAt(ThreadIndex() % kWarp / 4, column, wide_inputs_);
    if (bias == nullptr) {
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        StoreAs<Words2>(wide + m * group, {PackBf16(sums.Total(m, 0), sums.Total(m, 1)),
                                           PackBf16(sums.Total(m, 2), sums.Total(m, 3))});
      }
      return;
    }
    const Floats2 more = LoadAs<Floats2>(bias + column);
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
      float v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = Gelu(sums.Total(m, i) + more.v[i % 2]);
      StoreAs<Words2>(wide + m * group, {PackBf16(v[0], v[1]), PackBf16(v[2], v[3])});
    }
  }

  // Columns `column` to column + 7 of a row.
  __device__ __forceinline__ void LeaveWords(int layer, int row, int column,
                                             const Words4& words) const {
    if (row >= rows_in_use_) return;
    const int queries = p_.heads * p_.head_dim;
    const int kv_width = p_.kv_heads * p_.head_dim;
    if (column < queries) {
      StoreAs<Words4>(p_.q + Global(row) * queries + column, words);
      return;
    }
    const bool value = column >= queries + kv_width;
    column -= queries + (value ? kv_width : 0);
    const int kv_head = column >> head_shift_;
    const int d = column & (p_.head_dim - 1);
    if (tile_->first_row >= 0) {
      LeaveToContext(layer, first_row_ + row, kv_head, d, value, words);
    } else if (tile_->append_place >= 0) {
      LeaveToBuffer(*tile_, p_, layer, first_row_ + row, kv_head, d, value, words);
    }
  }

  // Elements d to d + 7 of a head, of a row of the tile.
  __device__ __forceinline__ void LeaveToContext(int layer, int row, int kv_head, int d, bool value,
                                                 Words4 words) const {
    if (row >= tile_->encode_rows) words = {};  // fills up the last block
    const int64_t blocks = ContextBlocks(tile_->context_rows);
    uint16_t* block = tile_->context +
                      layer * ContextLayerSize(tile_->context_rows, p_.kv_heads, p_.head_dim) +
                      (kv_head * blocks + tile_->first_row / kBlockKeys) * BlockSize(p_.head_dim);
    if (!value) {
      StoreAs<Words4>(block + BlockKeyAt(row, d, p_.head_dim), words);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      block[BlockValueAt(row, d + 2 * i, p_.head_dim)] = static_cast<uint16_t>(words.w[i]);
      block[BlockValueAt(row, d + 2 * i + 1, p_.head_dim)] =
          static_cast<uint16_t>(words.w[i] >> 16);
    }
  }

  __device__ __forceinline__ int InputsOf(RowProduct product) const {
    if (product == RowProduct::kAttention) return p_.heads * p_.head_dim;
    return product == RowProduct::kDown ? p_.hidden : p_.width;
  }
  __device__ __forceinline__ int OutputsOf(RowProduct product) const {
    if (product == RowProduct::kUp) return p_.hidden;
    return product == RowProduct::kProjection ? ProjectedWidth(p_) : p_.width;
  }

  // x = LN(x); operand = x. x also goes back to global memory if `keep`.
  __device__ __forceinline__ void Normalize(RowProduct product, bool keep) {
    const float* gamma = product == RowProduct::kAttention ? finish_
                         : product == RowProduct::kDown    ? finish_ + 2 * p_.width
                                                           : leave_;
    constexpr int kTogether = kRowsTogether < 2 ? 2 : kRowsTogether;
    NormalizeRows<kRows, kWarps, kTogether, kPanels>(
        x_, x_stride_, gamma, gamma + p_.width, p_.width, p_.epsilon,
        [&](const int(&rows)[kTogether], int column, const Floats4(&x)[kTogether]) {
          if (keep && column < p_.width) {
#pragma unroll
            for (int r = 0; r < kTogether; ++r) Keep(rows[r], column, x[r]);
          }
#pragma unroll
          for (int r = 0; r < kTogether; r += 2) StoreOperands(rows[r], column, x[r], x[r + 1]);
        });
    Sync();
  }

  __device__ __forceinline__ void Keep(int row, int column, const Floats4& x) {
    if (row < rows_in_use_) StoreAs<Floats4>(p_.x + Global(row) * p_.width + column, x);
  }

  // Of all tiles' rows.
  __device__ __forceinline__ int64_t Global(int row) const {
    return static_cast<int64_t>(tile_index_) * kTileRows + first_row_ + row;
  }

  // operand = x, of columns `column` to column + 3.
  __device__ __forceinline__ void StoreOperand(int row, int column, const Floats4& x) {
    uint16_t* to = operand_ + OperandAt(row, column, operand_inputs_);
    StoreAs<uint32_t>(to, PackBf16(x.v[0], x.v[1]));
    StoreAs<uint32_t>(to + 4, PackBf16(x.v[2], x.v[3]));
  }

  // Of that row, of a group's first 8, and of the one 8 below it.
  __device__ __forceinline__ void StoreOperands(int row, int column, const Floats4& x,
                                                const Floats4& below) {
    StoreAs<Words4>(operand_ + OperandAt(row, column, operand_inputs_),
                    {PackBf16(x.v[0], x.v[1]), PackBf16(below.v[0], below.v[1]),
                     PackBf16(x.v[2], x.v[3]), PackBf16(below.v[2], below.v[3])});
  }

  // operand = attention, of all rows, kTogether of them at a time, and kChunks chunks of each.
  template <int kTogether, int kChunks>
  __device__ __forceinline__ void MergeRows() {
    const int width = p_.heads * p_.head_dim;
#pragma unroll 1
    for (int column = ThreadIndex() % kWarp * 4; column < SlabsOf(width) * kSlabInputs;
         column += kWarp * 4) {
#pragma unroll 1
      for (int row = ThreadIndex() / kWarp; row < rows_; row += kTogether * kWarps) {
        Floats4 merged[kTogether] = {};
        if (column < width) MergeElements<kTogether, kChunks>(row, column, merged);
        if constexpr (kTogether == 1) {
          StoreOperand(row, column, merged[0]);
        } else {
          static_assert(kWarps == 8);  // the second row is the one 8 below the first
#pragma unroll
          for (int r = 0; r < kTogether; r += 2) {
            StoreOperands(row + r * kWarps, column, merged[r], merged[r + 1]);
          }
        }
      }
    }
  }

  // Four elements of each of kTogether rows, kWarps rows apart, merged and divided.
  template <int kTogether, int kChunks>
  __device__ __forceinline__ void MergeElements(int row, int column,
                                                Floats4 (&o)[kTogether]) const {
    const int64_t heads = static_cast<int64_t>(p_.tile_count) * kTileRows * p_.heads;  // of a slot
    const int64_t head = Global(row) * p_.heads + (column >> head_shift_);
    const int64_t next_row = static_cast<int64_t>(kWarps) * p_.heads;
    const float* states = p_.chunk_state + head * 2;
    const float* chunks = p_.chunk_o + head * p_.head_dim + (column & (p_.head_dim - 1));
    float m[kTogether];
    float l[kTogether];
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      m[r] = -INFINITY;
      l[r] = 0;
    }
#pragma unroll 1
    for (int first = 0; first < slots_; first += kChunks) {
      Floats2 state[kChunks][kTogether];
      Floats4 chunk[kChunks][kTogether];
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        if (first + i >= slots_) break;
#pragma unroll
        for (int r = 0; r < kTogether; ++r) {
          const int64_t at = (first + i) * heads + r * next_row;
          state[i][r] = LoadFresh<Floats2>(states + at * 2);
          chunk[i][r] = LoadFresh<Floats4>(chunks + at * p_.head_dim);
        }
      }
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        if (first + i >= slots_) break;
#pragma unroll
        for (int r = 0; r < kTogether; ++r) {
          const MergeScale scale = MergeMaximum(m[r], state[i][r].v[0]);
          l[r] = MergeSum(l[r], state[i][r].v[1], scale);
#pragma unroll
          for (int k = 0; k < 4; ++k) o[r].v[k] = MergeSum(o[r].v[k], chunk[i][r].v[k], scale);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const float divisor = l[r] > 0 ? Reciprocal(l[r]) : 0.0f;  // no key at all: attention is 0
#pragma unroll
      for (int k = 0; k < 4; ++k) o[r].v[k] *= divisor;
    }
  }

  const RowLayerParams& p_;
  const int operand_inputs_;
  const int wide_inputs_;
  const int x_stride_;
  const int head_shift_;
  uint16_t* const operand_;
  uint16_t* const wide_;
  float* const x_;
  float* const finish_;  // vectors
  float* const leave_;
  const int rows_;  // of the block: kRows, or 8 of 16
  const int tile_index_;
  const int first_row_;  // of the tile
  const int slots_;      // of states to merge
  const Tile* tile_ = nullptr;
  int rows_in_use_ = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_STAGES_CUH_
