// The consumer warps of a block of TileLayerKernel (compute capability 9.0).
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_TILE_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_TILE_SM90_CUH_

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/layer_norm.cuh"
#include "kernels/cuda/layer/producer_sm90.cuh"
#include "kernels/cuda/layer/smem_tile_sm90.h"
#include "kernels/cuda/layer/tile_rows_sm90.cuh"
#include "kernels/cuda/layer/weight_ring.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/layout/weight_tiles.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/smem_descriptor.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace chorale::kernels::cuda {

struct TileLayerParams {
  LayerParams layer;
  TileSmem shared;
};

// The consumer warps of a block. Rows stay in registers (TileRows), and the epilogue of a GEMM is
// computed while the next one is in flight, where that one does not depend on it.
//
// Every sum has the order that WgmmaRows and NormalizeRows give it.
//
// Ring: RingConsumer, or what has its functions. kWidth: as of TileRows. kAllLayers: whether the
// kernel computes all layers: then registers are short (TileRows::Renew, StashX), and x is kept
// between layers (TileRows::SaveX).
template <int kHeadDim, typename Ring = RingConsumer, int kWidth = 0, bool kAllLayers = false>
class TileLayerBlock {
  using Rows = TileRows<kHeadDim, kWidth>;
  using Elements = typename Rows::Elements;
  static constexpr int kBlocks = Rows::kBlocks;
  static constexpr int kElements = Rows::kElements;
  // Of 16 inputs of a weight tile, and of a half of the operand: steps of descriptors.
  static constexpr int kStepWeights = 2 * kWgmmaTileHalfBytes / 16;
  static constexpr int kHalfWeights = Rows::kHalfSteps * kStepWeights;

 public:
  __device__ __forceinline__ TileLayerBlock(const LayerParams& p, const TileSmem& shared,
                                            const Ring& ring, const Tile& tile)
      : p_(p), shared_(shared), rows_(p, shared, tile), ring_(ring) {}

  __device__ __forceinline__ Rows& rows() { return rows_; }
  __device__ __forceinline__ Ring& ring() { return ring_; }

  // After GridDepWait.
  __device__ __forceinline__ void Run() {
    const bool has_post = p_.part != LayerPart::kPreAttention;
    const bool has_pre = p_.part != LayerPart::kPostAttention;
    rows_.LoadX();
    if (has_post) {
      rows_.FillOperandWithAttention();
    } else {
      rows_.RoundX();
    }
    rows_.StoreHalf(rows_.operand(), rows_.own);
    MbarrierWait(shared_.inputs_ready.At(DynamicSmem()), 0);
    Compute(has_post, has_pre, shared_.post_vectors.At(DynamicSmem()),
            shared_.pre_vectors.At(DynamicSmem()),
            [&](int tile, const Elements& qkv) { rows_.StoreQkv(tile, qkv); });
  }

  // Computes the parts of a layer on the operand: attention, or x if there is no post-attention.
  // store(i, qkv) stores the i-th weight tile of outputs of the QKV projection.
  template <typename Store>
  __device__ __forceinline__ void Compute(bool has_post, bool has_pre, const float* post_vectors,
                                          const float* pre_vectors, const Store& store) {
    post_vectors_ = post_vectors;
    // Output projection, LN2; MLP, LN3; feature attention, LN1. One loop, to keep the code small:
    // each launch fetches its instructions anew.
    const int width = rows_.width();
#pragma unroll 1
    for (int i = has_post ? 0 : 2; i < (has_pre ? 3 : 2); ++i) {
      const bool mlp = i == 1;
      if constexpr (kAllLayers) rows_.Renew();
      if (mlp) {
        Mlp();
      } else {
        MultiplyWeightTile(rows_.operand(), false, [] {});
      }
      AddToX(mlp ? post_vectors + kB2At * width : nullptr);
      Normalize(i == 2 ? pre_vectors : post_vectors + (mlp ? kGamma3At : kGamma2At) * width);
    }
    if constexpr (kAllLayers) rows_.Renew();
    if (has_pre) {
      Qkv(store);
    } else {
      rows_.StoreX();
    }
  }

 private:
  // HalfOfRow of the row of a warpgroup's columns.
  __device__ __forceinline__ float* half_of_row(int warpgroup, int half) const {
    return shared_.row_halves.At(DynamicSmem()) + 2 * (warpgroup * kTileRows + rows_.RowOf(half));
  }
  // ---- GEMMs ---------------------------------------------------------------------------------

  // sums_ = the MLP of the operand. While hidden units of a weight tile are computed, the product
  // for the next ones is in flight; with the last ones, the product of the first ones with W2.
  __device__ __forceinline__ void Mlp() {
    const int tiles = WeightTilesOf(p_.shape.hidden);  // at least 2
    MultiplyWeightTile(rows_.operand(), false, [&] {
      if constexpr (kAllLayers) rows_.StashX();
    });
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      Elements h;
      TakeTotals(h);
      uint16_t* exchange = nullptr;
      if (tile == tiles - 1) {
        exchange = rows_.hidden(0);
        rows_.LoadOwn(exchange);
      }
      MultiplyWeightTile(exchange, false, [&] { StoreHidden(tile, h); });
    }
#pragma unroll 1
    for (int tile = 1; tile < tiles; ++tile) {
      rows_.LoadOwn(rows_.hidden(tile));
      MultiplyWeightTile(rows_.hidden(tile), true, [] {});
    }
    if constexpr (kAllLayers) rows_.UnstashX();
  }

  // Stores q, K and V. Stores or saves x, which is final.
  template <typename Store>
  __device__ __forceinline__ void Qkv(const Store& store) {
    const int tiles = WeightTilesOf(kWidth > 0 ? 3 * kWidth : p_.shape.qkv_width());
    Elements qkv;
    MultiplyWeightTile(rows_.operand(), false, [&] {
      if constexpr (kAllLayers) {
        rows_.SaveX();
      } else {
        rows_.StoreX();
      }
    });
#pragma unroll 1
    for (int tile = 1; tile < tiles; ++tile) {
      TakeTotals(qkv);
      MultiplyWeightTile(nullptr, false, [&] { store(tile - 1, qkv); });
    }
    TakeTotals(qkv);
    store(tiles - 1, qkv);
  }

  __device__ __forceinline__ void TakeTotals(Elements& totals) const {
#pragma unroll
    for (int i = 0; i < kElements; ++i) totals[i] = Total(i);
  }

  // sums_ = the product of the operand with the next weight tile, added to sums_ if `accumulate`:
  // of each half of the operand, as in WgmmaRows. `exchange`: where both warpgroups have stored
  // their halves, of which the other one is still to be loaded; or null. meanwhile() is called
  // while the product is in flight.
  template <typename Meanwhile>
  __device__ __forceinline__ void MultiplyWeightTile(uint16_t* exchange, bool accumulate,
                                                     const Meanwhile& meanwhile) {
    const int stage = ring_.Take();
    const uint64_t weights = MakeSmemDescriptor(ring_.Address(stage), kWgmmaTileHalfBytes, 8 * 16);
    const uint64_t own = weights + rows_.warpgroup() * kHalfWeights;
    const uint64_t other = weights + (1 - rows_.warpgroup()) * kHalfWeights;
    HoldOperands(rows_.own);
    HoldOperands(sums_[0]);
    HoldOperands(sums_[1]);
    // A test at run time, though callers know the answer when compiled: without it, the compiler
    // moves loads of the next part up over this one, and keeps what they load in local memory.
    if (exchange != nullptr) rows_.LoadOther(exchange);
    HoldOperands(rows_.other);
    WgmmaFence();
#pragma unroll
    for (int step = 0; step < Rows::kHalfSteps; ++step) {
      const bool adds = step > 0 || accumulate;
      Wgmma(sums_[0], rows_.own[step], own + step * kStepWeights, adds);
      Wgmma(sums_[1], rows_.other[step], other + step * kStepWeights, adds);
    }
    WgmmaCommit();
    meanwhile();
    WgmmaWait<0>();
    HoldOperands(rows_.own);
    HoldOperands(rows_.other);
    HoldOperands(sums_[0]);
    HoldOperands(sums_[1]);
    ring_.Release(stage);
  }

  __device__ __forceinline__ float Total(int i) const { return sums_[0][i] + sums_[1][i]; }

  // x += sums_ + bias; `bias` may be null.
  __device__ __forceinline__ void AddToX(const float* bias) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int column = rows_.ColumnOf(block);
      if (!rows_.HasColumn(column)) continue;
#pragma unroll
      for (int quad = 0; quad < 2; ++quad) {
        Floats4 b = {};
        if (bias != nullptr) b = LoadAs<Floats4>(bias + column + 4 * quad);
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          const int i = Rows::At(block, c / 4, 4 * quad + c % 4);
          rows_.x[i] += Total(i) + b.v[c % 4];
        }
      }
    }
  }

  // Stores gelu(h + b1), of a weight tile of outputs.
  __device__ __forceinline__ void StoreHidden(int tile, Elements& h) {
    const float* const b1 = post_vectors_ + kB1At * rows_.width() + tile * kWeightTileOutputs;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int quad = 0; quad < 2; ++quad) {
        const Floats4 b = LoadAs<Floats4>(b1 + rows_.ColumnOf(block) + 4 * quad);
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          const int i = Rows::At(block, c / 4, 4 * quad + c % 4);
          h[i] = Gelu(h[i] + b.v[c % 4]);
        }
      }
    }
    typename Rows::Half words;
    Rows::Round(h, words);
    rows_.StoreHalf(rows_.hidden(tile), words);
  }

  // ---- Layer norm ----------------------------------------------------------------------------

  // x = LN(x), which becomes the operand: the sums of NormalizeRows, whose lane 16h + 8b + 2j + q
  // has four columns of block b of lane j of warpgroup h.
  __device__ __forceinline__ void Normalize(const float* gamma) {
    static_assert(kBlocks == 2 && kConsumerWarpgroups == 2);
    const NormHalves halves(rows_.width(), rows_.warpgroup());
    float shift[2];               // [half: row g or g + 8]
    float sums[2 * 2 * kBlocks];  // [of x, of squares][half][block]
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      shift[half] = __shfl_sync(kAllLanes, rows_.x[Rows::At(0, half, 0)], LaneIndex() & ~3);
      if (!rows_.HasColumn(rows_.warpgroup() * kWgmmaTileOutputs)) shift[half] = 0;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        float sum[2] = {};  // of the two quads
        float squares[2] = {};
        if (rows_.HasColumn(rows_.ColumnOf(block))) {
#pragma unroll
          for (int c = 0; c < 8; ++c) {
            float& v = rows_.x[Rows::At(block, half, c)];
            v -= shift[half];
            sum[c / 4] += v;
            squares[c / 4] = fmaf(v, v, squares[c / 4]);
          }
        }
        sums[half * kBlocks + block] = sum[0] + sum[1];
        sums[(2 + half) * kBlocks + block] = squares[0] + squares[1];
      }
    }
    SumOverLanes<4>(sums);
    HalfOfRow own[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& sum = sums[half * kBlocks];
      const int squares = (2 + half) * kBlocks;
      sum += sums[half * kBlocks + 1];
      own[half] = HalfOfRow::Of(halves, shift[half], sum, sums[squares] + sums[squares + 1]);
      if (ThreadIndex() % 4 == 0) {
        StoreAs<Floats2>(half_of_row(rows_.warpgroup(), half), {own[half].mean, own[half].squares});
      }
    }
    rows_.Sync();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto other = LoadAs<Floats2>(half_of_row(1 - rows_.warpgroup(), half));
      const RowMoments moments(halves, sums[half * kBlocks], own[half], {other.v[0], other.v[1]},
                               p_.epsilon);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const int column = rows_.ColumnOf(block);
        if (!rows_.HasColumn(column)) continue;
#pragma unroll
        for (int quad = 0; quad < 2; ++quad) {
          const auto g = LoadAs<Floats4>(gamma + column + 4 * quad);
          const auto b = LoadAs<Floats4>(gamma + rows_.width() + column + 4 * quad);
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            float& v = rows_.x[Rows::At(block, half, 4 * quad + c)];
            v = fmaf((v - moments.mean) * moments.scale, g.v[c], b.v[c]);
          }
        }
      }
    }
    rows_.RoundX();
    rows_.StoreHalf(rows_.operand(), rows_.own);
  }

  const LayerParams& p_;
  const TileSmem& shared_;
  const float* post_vectors_ = nullptr;
  Rows rows_;
  Ring ring_;
  float sums_[2][kElements];  // products of the own half of the operand, and of the other
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_TILE_SM90_CUH_
