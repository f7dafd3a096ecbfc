// What the decode kernel does to the rows of one block between two attentions: the products and
// norms of row_stages.cuh, with the same bits, but with weights from a ring and products of
// warpgroups.
#ifndef CHORALE_KERNELS_CUDA_DECODE_ROWS_CUH_
#define CHORALE_KERNELS_CUDA_DECODE_ROWS_CUH_

#include "kernels/cuda/decode_layout.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/leave_to_buffer.cuh"
#include "kernels/cuda/normalize_rows.cuh"
#include "kernels/cuda/row_layer.h"
#include "kernels/cuda/row_layout.h"
#include "kernels/cuda/stage_ring.cuh"

namespace chorale::kernels::cuda {

// The products of a layer, in the order of their weights in the ring.
enum class DecodeProduct : int {
  kFeature,     // x = LN1(x + P x)
  kProjection,  // projected = (Wq over Wk over Wv) x
  kAttention,   // x = LN2(x + Wo attention)
  kUp,          // hidden = gelu(W1 x + b1)
  kDown,        // x = LN3(x + W2 hidden + b2)
};
inline constexpr int kDecodeProducts = 5;

// Of kDecodeWarps warps. What is multiplied lies in shared memory as ProductOperandAt has it, but
// for q, K and V, which lie as OperandAt has them. A warpgroup computes half of the outputs of
// every slab, of all rows.
template <int kGroups, int kPanels, int kStageBytes>
class DecodeRows {
  static constexpr int kThreads = kDecodeWarps * kWarp;
  static constexpr int kSums = kGroups * kGroupRows / 2;  // of a lane
  static_assert(kDecodeWarps == 8);

 public:
  static constexpr int kRows = kGroups * kGroupRows;

  __device__ __forceinline__ DecodeRows(const RowLayerParams& params, const DecodeLayout& shared,
                                        int first_row)
      : p_(params), shared_(shared), first_row_(first_row) {}

  // Asks for the vectors that are added and multiplied with.
  __device__ __forceinline__ void FetchFinishVectors(const float* vectors) const {
    FetchVectors<kThreads>(finish(), vectors, FinishVectorsSize(p_));
  }
  __device__ __forceinline__ void FetchLeaveVectors(const float* vectors) const {
    FetchVectors<kThreads>(leave(), vectors, LeaveVectorsSize(p_));
  }

  __device__ __forceinline__ const float* x(int row) const {
    return At<float>(shared_.x) + row * shared_.x_stride;
  }

  // Columns `column` to column + 3 of a row, as the x that comes in; of columns beyond D, zeros.
  __device__ __forceinline__ void StoreRow(int row, int column, const Floats4& x) const {
    if (column < p_.width) {
      StoreAs<Floats4>(At<float>(shared_.x) + row * shared_.x_stride + column, x);
    }
    StoreOperand(row, column, x);
  }
  __device__ __forceinline__ int operand_inputs() const { return shared_.operand_inputs; }

  // The queries of a group: where they lie behind the projection.
  __device__ __forceinline__ const uint16_t* queries(int group) const {
    return At<uint16_t>(shared_.wide) + group * kGroupRows * shared_.projected;
  }

  // operand = attention, of columns `column` to column + 3 of a row.
  __device__ __forceinline__ void StoreAttention(int row, int column,
                                                 const Floats4& attention) const {
    StoreOperand(row, column, attention);
  }
  // Likewise, of the two columns 2 j, 2 j + 1 of each of four times 8 neighbouring columns, of
  // which the first is `column` - 2 j.
  __device__ __forceinline__ void StoreAttention(int row, int column, const Words4& words) const {
    StoreAs<Words4>(At<uint16_t>(shared_.operand) +
                        ProductOperandAt(row, column, kRows, shared_.operand_inputs),
                    words);
  }

  // Ends with x, operand, or the wide operand complete for the whole block. `next`: the stage of
  // the ring that is consumed next, moved on.
  __device__ __forceinline__ void Multiply(DecodeProduct product, RingReader& ring,
                                           uint32_t& next) const {
    const bool down = product == DecodeProduct::kDown;
    const int padded_inputs = down ? shared_.hidden : shared_.operand_inputs;
    const uint64_t rows =
        DescribeMatrix(SharedAddress(At<uint16_t>(down ? shared_.wide : shared_.operand)),
                       padded_inputs / 16 * ProductRowsBytes(kRows), 8 * 16);
    const int inputs = SlabsOf(InputsOf(product));
    const int outputs = OutputsOf(product);
    // Of 16 outputs, a lane has two neighbours.
    const int column = ThreadIndex() / kWarp * 16 + ThreadIndex() % kWarp / 4 * 2;
#pragma unroll 1
    for (int first = 0; first < outputs; first += kSlabOutputs) {
      float sums[2][kSums];
      MultiplySlabs(ring, rows, inputs, next, sums);
      next += inputs * kSlabStages;
      if (product == DecodeProduct::kUp) {
        StoreHidden(first + column, sums);
      } else if (product == DecodeProduct::kProjection) {
        StoreProjected(first + column, sums);
      } else if (first + column < outputs) {
        AddToX(first + column, down ? finish() + 4 * p_.width : nullptr, sums);
      }
    }
    if (product == DecodeProduct::kUp) ShareWithCopies();
    Sync();
    if (product != DecodeProduct::kUp && product != DecodeProduct::kProjection) Normalize(product);
  }

  // Brings K and V of the paths' new tokens from where the projection left them to their buffers: a
  // lane 8 columns of a row.
  __device__ __forceinline__ void Leave(const Tile& tile, int layer) const {
    if (tile.append_place < 0) return;
    const int g = ThreadIndex() % kWarp / 4;
    const int queries = p_.heads * p_.head_dim;
    const int kv_width = p_.kv_heads * p_.head_dim;
#pragma unroll 1
    for (int i = ThreadIndex() / kWarp; i / kGroups * 32 < 2 * kv_width; i += kDecodeWarps) {
      const int row = i % kGroups * kGroupRows + kGroupPaths + g;  // of a token
      int column = i / kGroups * 32 + ThreadIndex() % 4 * 8;
      if (column >= 2 * kv_width) continue;
      const uint16_t* from =
          At<uint16_t>(shared_.wide) + OperandAt(row, queries + column, shared_.projected);
      const uint16_t* more =
          At<uint16_t>(shared_.wide) + OperandAt(row, queries + column + 4, shared_.projected);
      const Words4 words = {LoadAs<uint32_t>(from), LoadAs<uint32_t>(from + 4),
                            LoadAs<uint32_t>(more), LoadAs<uint32_t>(more + 4)};
      const bool value = column >= kv_width;
      if (value) column -= kv_width;
      LeaveToBuffer(tile, p_, layer, first_row_ + row, column >> shared_.head_shift,
                    column & (p_.head_dim - 1), value, words);
    }
  }

  // Waits for all threads that work on the rows.
  __device__ __forceinline__ static void Sync() { SyncThreads<kThreads>(kRowsBarrier); }
  // Likewise, and what was stored to operands is there for products.
  __device__ __forceinline__ static void SyncOperands() {
    ShareWithCopies();
    Sync();
  }

 private:
  static constexpr int kRowsBarrier = 1;
  static constexpr int kSlabStages = kSlabSize * 2 / kStageBytes;
  static constexpr int kStageQuarters = kStageBytes / (kQuarterSize * 2);
  static constexpr int kHalfStages = kSlabStages / 2;  // of half of the outputs
  static constexpr int kProductsOfQuarter = kQuarterInputs / 16;

  template <typename T>
  __device__ __forceinline__ static T* At(int offset) {
    return reinterpret_cast<T*>(Shared() + offset);
  }
  __device__ __forceinline__ float* finish() const { return At<float>(shared_.finish); }
  __device__ __forceinline__ float* leave() const { return At<float>(shared_.leave); }

  // sums = the next slabs with the warpgroup's outputs, times `rows`, as Sums has them: in two
  // parts, each over every other 16 inputs.
  __device__ __forceinline__ static void MultiplySlabs(RingReader& ring, uint64_t rows, int slabs,
                                                       uint32_t first, float (&sums)[2][kSums]) {
    first += ThreadIndex() / (4 * kWarp) * kHalfStages;
#pragma unroll 1
    for (int slab = 0; slab < slabs; ++slab) {
      const uint32_t own = first + slab * kSlabStages;
      uint64_t weights[kHalfStages];
#pragma unroll
      for (int stage = 0; stage < kHalfStages; ++stage) {
        weights[stage] =
            DescribeMatrix(SharedAddress(ring.Wait(own + stage)), kQuarterHalfBytes, 8 * 16);
      }
      BeginAsWarpgroup();
#pragma unroll
      for (int stage = 0; stage < kHalfStages; ++stage) {
#pragma unroll
        for (int i = 0; i < kStageQuarters * kProductsOfQuarter; ++i) {
          const bool first_of_part = stage == 0 && i < 2;
          MultiplyAsWarpgroup(sums[i % 2], weights[stage] + i * (2 * kQuarterHalfBytes / 16), rows,
                              !first_of_part || slab > 0);
          rows += ProductRowsBytes(kRows) / 16;
        }
      }
      CommitAsWarpgroup();
      if (slab > 0) {
        WaitAsWarpgroup<1>();
        Release(ring, own - kSlabStages);
      }
    }
    WaitAsWarpgroup<0>();
    Release(ring, first + (slabs - 1) * kSlabStages);
  }

  // The stages of half of a slab's outputs.
  __device__ __forceinline__ static void Release(const RingReader& ring, uint32_t stage) {
#pragma unroll
    for (int i = 0; i < kHalfStages; ++i) ring.Release(stage + i, kStageReaders / 4);
  }

  // Of the lane: the first of the rows 8 n + 2 j, 8 n + 2 j + 1 of which it has sums.
  __device__ __forceinline__ static int FirstOwnRow() { return ThreadIndex() % 4 * 2; }

  // Sum of output `output` % 2 of the lane's two, and of row 8 n + 2 j + `row`.
  __device__ __forceinline__ static float Total(const float (&sums)[2][kSums], int n, int output,
                                                int row) {
    const int i = 4 * n + 2 * output + row;
    return sums[0][i] + sums[1][i];
  }

  // x += sums + bias, of columns `column` and column + 1; `bias` may be null.
  __device__ __forceinline__ void AddToX(int column, const float* bias,
                                         const float (&sums)[2][kSums]) const {
    Floats2 more = {};
    if (bias != nullptr) more = LoadAs<Floats2>(bias + column);
    float* x = At<float>(shared_.x) + FirstOwnRow() * shared_.x_stride + column;
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
      Floats2 pairs[2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        pairs[row] = LoadAs<Floats2>(x + (8 * n + row) * shared_.x_stride);
      }
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        StoreAs<Floats2>(x + (8 * n + row) * shared_.x_stride,
                         {pairs[row].v[0] + (Total(sums, n, 0, row) + more.v[0]),
                          pairs[row].v[1] + (Total(sums, n, 1, row) + more.v[1])});
      }
    }
  }

  // hidden = gelu(sums + b1), as AddToX.
  __device__ __forceinline__ void StoreHidden(int column, const float (&sums)[2][kSums]) const {
    const Floats2 more = LoadAs<Floats2>(finish() + 5 * p_.width + column);
    uint16_t* hidden =
        At<uint16_t>(shared_.wide) + ProductOperandAt(FirstOwnRow(), column, kRows, shared_.hidden);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        StoreAs<uint32_t>(hidden + (8 * n + row) * 8,
                          PackBf16(Gelu(Total(sums, n, 0, row) + more.v[0]),
                                   Gelu(Total(sums, n, 1, row) + more.v[1])));
      }
    }
  }

  // Of q, K and V.
  __device__ __forceinline__ void StoreProjected(int column, const float (&sums)[2][kSums]) const {
    uint16_t* projected = At<uint16_t>(shared_.wide);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int at = FirstOwnRow() + 8 * n + row;
        StoreAs<uint32_t>(projected + OperandAt(at, column, shared_.projected),
                          PackBf16(Total(sums, n, 0, row), Total(sums, n, 1, row)));
      }
    }
  }

  __device__ __forceinline__ int InputsOf(DecodeProduct product) const {
    if (product == DecodeProduct::kAttention) return p_.heads * p_.head_dim;
    return product == DecodeProduct::kDown ? p_.hidden : p_.width;
  }
  __device__ __forceinline__ int OutputsOf(DecodeProduct product) const {
    if (product == DecodeProduct::kUp) return p_.hidden;
    return product == DecodeProduct::kProjection ? ProjectedWidth(p_) : p_.width;
  }

  // x = LN(x); operand = x.
  __device__ __forceinline__ void Normalize(DecodeProduct product) const {
    const float* gamma = product == DecodeProduct::kAttention ? finish()
                         : product == DecodeProduct::kDown    ? finish() + 2 * p_.width
                                                              : leave();
    constexpr int kTogether = kGroups > 1 ? 4 : 2;
    NormalizeRows<kRows, kDecodeWarps, kTogether, kPanels>(
        At<float>(shared_.x), shared_.x_stride, gamma, gamma + p_.width, p_.width, p_.epsilon,
        [this](const int(&rows)[kTogether], int column, const Floats4(&x)[kTogether]) {
#pragma unroll
          for (int r = 0; r < kTogether; ++r) StoreOperand(rows[r], column, x[r]);
        });
    SyncOperands();
  }

  // operand = x, of columns `column` to column + 3.
  __device__ __forceinline__ void StoreOperand(int row, int column, const Floats4& x) const {
    uint16_t* to = At<uint16_t>(shared_.operand) +
                   ProductOperandAt(row, column, kRows, shared_.operand_inputs);
    StoreAs<uint32_t>(to, PackBf16(x.v[0], x.v[1]));
    to += shared_.operand_inputs / 16 * (kRows + 1) * 8;  // the other half
    StoreAs<uint32_t>(to, PackBf16(x.v[2], x.v[3]));
  }

  const RowLayerParams& p_;
  const DecodeLayout& shared_;
  const int first_row_;  // of the tile
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_DECODE_ROWS_CUH_
