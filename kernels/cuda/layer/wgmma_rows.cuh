// The products and norms of a layer, of the rows of one block, with weights from a ring and by
// products of warpgroups. Bits are those of row_stages.cuh.
#ifndef CHORALE_KERNELS_CUDA_LAYER_WGMMA_ROWS_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_WGMMA_ROWS_CUH_

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layer_norm.cuh"
#include "kernels/cuda/layer/smem_mma_sm80.h"
#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/layer/weight_ring.cuh"
#include "kernels/cuda/layout/layout.h"
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

// By kConsumerWarps warps. What is multiplied lies in shared memory as WgmmaOperandAt has it, but
// for q, K and V, which lie as MmaOperandAt has them. A warpgroup computes half of the outputs of
// every weight tile, of all rows.
template <int kGroups, int kWidthTiles>
class WgmmaRows {
  static constexpr int kThreads = kConsumerWarps * kWarpSize;
  static constexpr int kSums = kGroups * kGroupRows / 2;  // of a lane
  static_assert(kConsumerWarpgroups * kWgmmaTileOutputs == kWeightTileOutputs);

 public:
  static constexpr int kRows = kGroups * kGroupRows;

  __device__ __forceinline__ WgmmaRows(const LayerParams& params, const WgmmaSmem& shared)
      : p_(params), shared_(shared) {}

  __device__ __forceinline__ float* x(int row) const {
    return At<float>(shared_.x) + row * shared_.x_stride;
  }

  // Behind the projection: q, K and V, as MmaOperandAt has them.
  __device__ __forceinline__ const uint16_t* qkv_smem() const {
    return At<uint16_t>(shared_.hidden_qkv_smem);
  }

  // operand = what is given, of columns `column` to column + 3 of a row.
  __device__ __forceinline__ void StoreA(int row, int column, const Floats4& x) const {
    uint16_t* to =
        At<uint16_t>(shared_.operand) + WgmmaOperandAt(row, column, kRows, shared_.a_inputs);
    StoreAs<uint32_t>(to, PackBf16(x.v[0], x.v[1]));
    to += shared_.a_inputs / 16 * (kRows + 1) * 8;  // the other half
    StoreAs<uint32_t>(to, PackBf16(x.v[2], x.v[3]));
  }

  // Ends with x, operand, or the wide operand complete for the whole block. The first `keep` rows
  // of the normalized x also go to `kept`, [keep, D] in global memory.
  __device__ __forceinline__ void Multiply(LayerGemm product, RingConsumer& ring, float* kept,
                                           int keep) const {
    const bool down = product == LayerGemm::kMlpDown;
    const int padded_inputs = down ? shared_.hidden : shared_.a_inputs;
    const uint64_t rows = MakeSmemDescriptor(
        SmemAddress(At<uint16_t>(down ? shared_.hidden_qkv_smem : shared_.operand)),
        padded_inputs / 16 * WgmmaOperandRowsBytes(kRows), 8 * 16);
    const int inputs = WeightTilesOf(InputsOf(p_, product));
    const int outputs = OutputsOf(p_, product);
    // Of 16 outputs, a lane has two neighbours.
    const int column = WarpIndex() * 16 + LaneIndex() / 4 * 2;
#pragma unroll 1
    for (int first = 0; first < outputs; first += kWeightTileOutputs) {
      float sums[2][kSums];
      MultiplyWeightTiles(ring, rows, inputs, sums);
      if (product == LayerGemm::kMlpUp) {
        StoreHidden(first + column, sums);
      } else if (product == LayerGemm::kQkvProjection) {
        StoreQkvToSmem(first + column, sums);
      } else if (first + column < outputs) {
        AddToX(first + column, down ? post_vectors() + 4 * p_.width : nullptr, sums);
      }
    }
    if (product == LayerGemm::kMlpUp) FenceProxyAsync();
    Sync();
    if (product != LayerGemm::kMlpUp && product != LayerGemm::kQkvProjection) {
      Normalize(product, kept, keep);
    }
  }

  // Waits for all threads that work on the rows.
  __device__ __forceinline__ static void Sync() { NamedBarrierSync<kThreads>(kRowsBarrier); }
  // Likewise, and what was stored to operands is there for products.
  __device__ __forceinline__ static void SyncA() {
    FenceProxyAsync();
    Sync();
  }

 private:
  static constexpr int kRowsBarrier = 1;
  static constexpr int kWgmmasPerWeightTile = kWeightTileInputs / 16;

  template <typename T>
  __device__ __forceinline__ static T* At(int offset) {
    return reinterpret_cast<T*>(DynamicSmem() + offset);
  }
  __device__ __forceinline__ float* post_vectors() const {
    return At<float>(shared_.post_attention);
  }
  __device__ __forceinline__ float* pre_vectors() const { return At<float>(shared_.pre_attention); }

  // sums = the warpgroup's outputs of the next weight tiles, times `rows`, as Sums has them: in two
  // parts, each over every other 16 inputs.
  __device__ __forceinline__ static void MultiplyWeightTiles(RingConsumer& ring, uint64_t rows,
                                                             int weight_tiles,
                                                             float (&sums)[2][kSums]) {
    int last = 0;  // stage_idx
#pragma unroll 1
    for (int weight_tile = 0; weight_tile < weight_tiles; ++weight_tile) {
      const int stage_idx = ring.Next();
      const uint64_t weights =
          MakeSmemDescriptor(SmemAddress(ring.At(stage_idx)), kWgmmaTileHalfBytes, 8 * 16);
      WgmmaFence();
#pragma unroll
      for (int i = 0; i < kWgmmasPerWeightTile; ++i) {
        Wgmma(sums[i % 2], weights + i * (2 * kWgmmaTileHalfBytes / 16), rows,
              i >= 2 || weight_tile > 0);
        rows += WgmmaOperandRowsBytes(kRows) / 16;
      }
      WgmmaCommit();
      if (weight_tile > 0) {
        WgmmaWait<1>();
        ring.Release(last);
      }
      last = stage_idx;
    }
    WgmmaWait<0>();
    ring.Release(last);
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
    const Floats2 more = LoadAs<Floats2>(post_vectors() + 5 * p_.width + column);
    uint16_t* hidden = At<uint16_t>(shared_.hidden_qkv_smem) +
                       WgmmaOperandAt(FirstOwnRow(), column, kRows, shared_.hidden);
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
  __device__ __forceinline__ void StoreQkvToSmem(int column, const float (&sums)[2][kSums]) const {
    uint16_t* qkv_smem = At<uint16_t>(shared_.hidden_qkv_smem);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int at = FirstOwnRow() + 8 * n + row;
        StoreAs<uint32_t>(qkv_smem + MmaOperandAt(at, column, shared_.qkv_smem),
                          PackBf16(Total(sums, n, 0, row), Total(sums, n, 1, row)));
      }
    }
  }

  // x = LN(x); operand = x. See Multiply.
  __device__ __forceinline__ void Normalize(LayerGemm product, float* kept, int keep) const {
    const float* gamma = product == LayerGemm::kOutputProjection ? post_vectors()
                         : product == LayerGemm::kMlpDown        ? post_vectors() + 2 * p_.width
                                                                 : pre_vectors();
    constexpr int kTogether = kGroups > 1 ? 4 : 2;
    NormalizeRows<kRows, kConsumerWarps, kTogether, kWidthTiles>(
        At<float>(shared_.x), shared_.x_stride, gamma, gamma + p_.width, p_.width, p_.epsilon,
        [&](const int(&rows)[kTogether], int column, const Floats4(&x)[kTogether]) {
#pragma unroll
          for (int r = 0; r < kTogether; ++r) {
            StoreA(rows[r], column, x[r]);
            if (rows[r] < keep && column < p_.width) {
              StoreAs<Floats4>(kept + rows[r] * p_.width + column, x[r]);
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
