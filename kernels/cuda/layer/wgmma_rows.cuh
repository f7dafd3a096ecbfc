// GEMMs and norms of a layer for the rows of one block, by wgmma with weights from a ring. The same
// bits as MmaRows.
#ifndef CHORALE_KERNELS_CUDA_LAYER_WGMMA_ROWS_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_WGMMA_ROWS_CUH_

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/layer_norm.cuh"
#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/layer/weight_ring.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/layout/weight_tiles.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/smem_descriptor.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace chorale::kernels::cuda {

// Called by all kConsumerWarps warps. A warpgroup computes half of the outputs of every weight
// tile, for all rows. `a` is the GEMM's operand in shared memory (WgmmaSmem).
template <int kGroups, int kWidthTiles>
class WgmmaRows {
  static constexpr int kThreads = kConsumerWarps * kWarpSize;
  static constexpr int kSums = kGroups * kGroupRows / 2;  // of a lane, in each of two partial sums
  static_assert(kConsumerWarpgroups * kWgmmaTileOutputs == kWeightTileOutputs);

 public:
  static constexpr int kRows = kGroups * kGroupRows;

  __device__ __forceinline__ WgmmaRows(const LayerParams& params, const WgmmaSmem& shared)
      : p_(params), shared_(shared) {}

  __device__ __forceinline__ float* x(int row) const {
    return At(shared_.x) + row * shared_.x_stride;
  }

  // q, K and V, see MmaOperandAt. Requires Multiply(kQkvProjection).
  __device__ __forceinline__ const uint16_t* qkv() const { return At(shared_.hidden_qkv); }

  // a = x in columns `column` to column + 3 of a row.
  __device__ __forceinline__ void StoreA(int row, int column, const Floats4& x) const {
    uint16_t* to = At(shared_.a) + WgmmaOperandAt(row, column, kRows, shared_.a_inputs);
    StoreAs<uint32_t>(to, PackBf16(x.v[0], x.v[1]));
    to += shared_.a_inputs / 16 * (kRows + 1) * 8;  // the other half
    StoreAs<uint32_t>(to, PackBf16(x.v[2], x.v[3]));
  }

  // Computes a GEMM and ends with a barrier. The first `store_rows` rows of the normalized x are
  // also stored to global_x, [store_rows, D] in global memory.
  __device__ __forceinline__ void Multiply(LayerGemm gemm, RingConsumer& ring, float* global_x,
                                           int store_rows) const {
    const bool down = gemm == LayerGemm::kMlpDown;
    const int padded_inputs = down ? shared_.hidden_inputs : shared_.a_inputs;
    const uint64_t rows = MakeSmemDescriptor(
        SmemAddress(DynamicSmem() + (down ? shared_.hidden_qkv.offset : shared_.a.offset)),
        padded_inputs / 16 * WgmmaOperandRowsBytes(kRows), 8 * 16);
    const int input_tiles = WeightTilesOf(InputsOf(p_.shape, gemm));
    const int outputs = OutputsOf(p_.shape, gemm);
    // A lane has two neighbours of 16 outputs.
    const int column = WarpIndex() * 16 + LaneIndex() / 4 * 2;
#pragma unroll 1
    for (int first = 0; first < outputs; first += kWeightTileOutputs) {
      float sums[2][kSums];
      MultiplyWeightTiles(ring, rows, input_tiles, sums);
      if (gemm == LayerGemm::kMlpUp) {
        StoreHidden(first + column, sums);
      } else if (gemm == LayerGemm::kQkvProjection) {
        StoreQkv(first + column, sums);
      } else if (first + column < outputs) {
        AddToX(first + column, down ? post_vectors() + kB2At * p_.shape.width : nullptr, sums);
      }
    }
    if (gemm == LayerGemm::kMlpUp) FenceProxyAsync();
    Sync();
    if (gemm != LayerGemm::kMlpUp && gemm != LayerGemm::kQkvProjection) {
      Normalize(gemm, global_x, store_rows);
    }
  }

  // A barrier of the consumer warps.
  __device__ __forceinline__ static void Sync() { NamedBarrierSync<kThreads>(kRowsBarrier); }
  // Likewise; makes stores to `a` visible to wgmma.
  __device__ __forceinline__ static void SyncA() {
    FenceProxyAsync();
    Sync();
  }

 private:
  static constexpr int kRowsBarrier = 1;
  static constexpr int kWgmmasPerWeightTile = kWeightTileInputs / 16;

  template <typename T>
  __device__ __forceinline__ static T* At(SmemArray<T> array) {
    return reinterpret_cast<T*>(DynamicSmem() + array.offset);
  }
  __device__ __forceinline__ float* post_vectors() const { return At(shared_.post_vectors); }
  __device__ __forceinline__ float* pre_vectors() const { return At(shared_.pre_vectors); }

  // sums = the products of the warpgroup's outputs of the next weight tiles with `rows`: two
  // partial sums, as in Sums (weight_prefetch.cuh).
  __device__ __forceinline__ static void MultiplyWeightTiles(RingConsumer& ring, uint64_t rows,
                                                             int weight_tiles,
                                                             float (&sums)[2][kSums]) {
    int previous = 0;  // stage
    HoldOperands(sums[0]);
    HoldOperands(sums[1]);
#pragma unroll 1
    for (int weight_tile = 0; weight_tile < weight_tiles; ++weight_tile) {
      const int stage = ring.Take();
      const uint64_t weights = MakeSmemDescriptor(ring.Address(stage), kWgmmaTileHalfBytes, 8 * 16);
      WgmmaFence();
#pragma unroll
      for (int i = 0; i < kWgmmasPerWeightTile; ++i) {
        const int step = i % 2 * (kWgmmasPerWeightTile / 2) + i / 2;
        Wgmma(sums[i % 2], weights + step * (2 * kWgmmaTileHalfBytes / 16),
              rows + step * (WgmmaOperandRowsBytes(kRows) / 16), i >= 2 || weight_tile > 0);
      }
      rows += kWgmmasPerWeightTile * (WgmmaOperandRowsBytes(kRows) / 16);
      WgmmaCommit();
      if (weight_tile > 0) {
        WgmmaWait<1>();
        ring.Release(previous);
      }
      previous = stage;
    }
    WgmmaWait<0>();
    HoldOperands(sums[0]);
    HoldOperands(sums[1]);
    ring.Release(previous);
  }

  // A lane has sums of rows 8n + 2j and 8n + 2j + 1; this is 2j.
  __device__ __forceinline__ static int LaneRow() { return ThreadIndex() % 4 * 2; }

  // The lane's output 0 or 1, row 8n + 2j + `row`.
  __device__ __forceinline__ static float Total(const float (&sums)[2][kSums], int n, int output,
                                                int row) {
    const int i = 4 * n + 2 * output + row;
    return sums[0][i] + sums[1][i];
  }

  // x += sums + bias in columns `column` and column + 1; `bias` may be null.
  __device__ __forceinline__ void AddToX(int column, const float* bias,
                                         const float (&sums)[2][kSums]) const {
    Floats2 b = {};
    if (bias != nullptr) b = LoadAs<Floats2>(bias + column);
    float* x = At(shared_.x) + LaneRow() * shared_.x_stride + column;
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
                         {pairs[row].v[0] + (Total(sums, n, 0, row) + b.v[0]),
                          pairs[row].v[1] + (Total(sums, n, 1, row) + b.v[1])});
      }
    }
  }

  // hidden = gelu(sums + b1) in the columns of AddToX.
  __device__ __forceinline__ void StoreHidden(int column, const float (&sums)[2][kSums]) const {
    const Floats2 b = LoadAs<Floats2>(post_vectors() + kB1At * p_.shape.width + column);
    uint16_t* hidden =
        At(shared_.hidden_qkv) + WgmmaOperandAt(LaneRow(), column, kRows, shared_.hidden_inputs);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        StoreAs<uint32_t>(
            hidden + (8 * n + row) * 8,
            PackBf16(Gelu(Total(sums, n, 0, row) + b.v[0]), Gelu(Total(sums, n, 1, row) + b.v[1])));
      }
    }
  }

  // qkv = sums in the columns of AddToX.
  __device__ __forceinline__ void StoreQkv(int column, const float (&sums)[2][kSums]) const {
    uint16_t* qkv = At(shared_.hidden_qkv);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int at = LaneRow() + 8 * n + row;
        StoreAs<uint32_t>(qkv + MmaOperandAt(at, column, shared_.qkv_inputs),
                          PackBf16(Total(sums, n, 0, row), Total(sums, n, 1, row)));
      }
    }
  }

  // x = LN(x); a = x. See Multiply.
  __device__ __forceinline__ void Normalize(LayerGemm gemm, float* global_x, int store_rows) const {
    const float* gamma = gemm == LayerGemm::kOutputProjection ? post_vectors()
                         : gemm == LayerGemm::kMlpDown ? post_vectors() + kGamma3At * p_.shape.width
                                                       : pre_vectors();
    constexpr int kTogether = kGroups > 1 ? 4 : 2;
    NormalizeRows<kRows, kConsumerWarps, kTogether, kWidthTiles>(
        At(shared_.x), shared_.x_stride, gamma, gamma + p_.shape.width, p_.shape.width, p_.epsilon,
        [&](const int(&rows)[kTogether], int column, const Floats4(&x)[kTogether]) {
#pragma unroll
          for (int r = 0; r < kTogether; ++r) {
            StoreA(rows[r], column, x[r]);
            if (rows[r] < store_rows && column < p_.shape.width) {
              StoreAs<Floats4>(global_x + rows[r] * p_.shape.width + column, x[r]);
            }
          }
        });
    SyncA();
  }

  const LayerParams& p_;
  const WgmmaSmem& shared_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_WGMMA_ROWS_CUH_
