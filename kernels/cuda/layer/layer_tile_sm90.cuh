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
// kernel computes all layers: then registers are short (TileRows::Renew), and x is kept between
// layers (TileRows::SaveX).
template <int kHeadDim, typename Ring = RingConsumer, int kWidth = 0, bool kAllLayers = false>
class TileLayerBlock {
  using Rows = TileRows<kHeadDim, kWidth>;
  using Elements = typename Rows::Elements;
  static constexpr int kBlocks = Rows::kBlocks;
  static constexpr int kElements = Rows::kElements;
  static constexpr int kSteps = kWeightTileInputs / 16;

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
      rows_.FillOperand(rows_.x);
    }
    rows_.ShareOperand();
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
        MultiplyWeightTile(false, [] {});
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
  __device__ __forceinline__ float* row_shift(int half) const {
    return shared_.row_shifts.At(DynamicSmem()) + rows_.RowOf(half);
  }
  __device__ __forceinline__ float* row_sums(int warpgroup, int half) const {
    return shared_.row_sums.At(DynamicSmem()) + 2 * (warpgroup * kTileRows + rows_.RowOf(half));
  }
  // ---- GEMMs ---------------------------------------------------------------------------------

  // sums_ = the MLP of the operand. While hidden units of a weight tile are computed, the product
  // for the next ones is in flight; with the last ones, the product of the first ones with W2.
  __device__ __forceinline__ void Mlp() {
    const int tiles = WeightTilesOf(p_.shape.hidden);  // at least 2
    MultiplyWeightTile(false, [] {});
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      Elements h;
      TakeTotals(h);
      if (tile == tiles - 1) {
        rows_.Sync();
        rows_.LoadHidden(0);
      }
      MultiplyWeightTile(false, [&] { StoreHidden(tile, h); });
    }
    rows_.Sync();
#pragma unroll 1
    for (int tile = 1; tile < tiles; ++tile) {
      rows_.LoadHidden(tile);
      MultiplyWeightTile(true, [] {});
    }
  }

  // Stores q, K and V. Stores or saves x, which is final.
  template <typename Store>
  __device__ __forceinline__ void Qkv(const Store& store) {
    const int tiles = WeightTilesOf(kWidth > 0 ? 3 * kWidth : p_.shape.qkv_width());
    Elements qkv;
    MultiplyWeightTile(false, [&] {
      if constexpr (kAllLayers) {
        rows_.SaveX();
      } else {
        rows_.StoreX();
      }
    });
#pragma unroll 1
    for (int tile = 1; tile < tiles; ++tile) {
      TakeTotals(qkv);
      MultiplyWeightTile(false, [&] { store(tile - 1, qkv); });
    }
    TakeTotals(qkv);
    store(tiles - 1, qkv);
  }

  __device__ __forceinline__ void TakeTotals(Elements& totals) const {
#pragma unroll
    for (int i = 0; i < kElements; ++i) totals[i] = Total(i);
  }

  // sums_ = the product of the operand with the next weight tile, added to sums_ if
  // `accumulate`: two partial sums, each over every other k-step, as in WgmmaRows. meanwhile() is
  // called while the product is in flight.
  template <typename Meanwhile>
  __device__ __forceinline__ void MultiplyWeightTile(bool accumulate, const Meanwhile& meanwhile) {
    const int stage = ring_.Take();
    const uint64_t weights = MakeSmemDescriptor(ring_.Address(stage), kWgmmaTileHalfBytes, 8 * 16);
    HoldOperands(rows_.a);
    HoldOperands(sums_[0]);
    HoldOperands(sums_[1]);
    WgmmaFence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Wgmma(sums_[step % 2], rows_.a[step], weights + step * (2 * kWgmmaTileHalfBytes / 16),
            step >= 2 || accumulate);
    }
    WgmmaCommit();
    meanwhile();
    WgmmaWait<0>();
    HoldOperands(rows_.a);
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
    rows_.FillOperand(h);
    rows_.StoreHidden(tile);
  }

  // ---- Layer norm ----------------------------------------------------------------------------

  // x = LN(x), which becomes the operand: the sums of NormalizeRows, whose lane 16h + 8b + 2j + q
  // has four columns of block b of lane j of warpgroup h.
  __device__ __forceinline__ void Normalize(const float* gamma) {
    if (rows_.warpgroup() == 0 && ThreadIndex() % 4 == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) *row_shift(half) = rows_.x[Rows::At(0, half, 0)];
    }
    rows_.Sync();
    float sums[2 * 2 * kBlocks];  // [of x, of squares][half][block]
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float shift = *row_shift(half);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        float sum[2] = {};  // of the two quads
        float squares[2] = {};
        if (rows_.HasColumn(rows_.ColumnOf(block))) {
#pragma unroll
          for (int c = 0; c < 8; ++c) {
            float& v = rows_.x[Rows::At(block, half, c)];
            v -= shift;
            sum[c / 4] += v;
            squares[c / 4] = fmaf(v, v, squares[c / 4]);
          }
        }
        sums[half * kBlocks + block] = sum[0] + sum[1];
        sums[(2 + half) * kBlocks + block] = squares[0] + squares[1];
      }
    }
    SumOverLanes<4>(sums);
    float own[2][2];  // [half][of x, of squares]
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = (2 * i + half) * kBlocks;
        own[half][i] = sums[at] + sums[at + 1];
      }
      if (ThreadIndex() % 4 == 0) {
        StoreAs<Floats2>(row_sums(rows_.warpgroup(), half), {own[half][0], own[half][1]});
      }
    }
    static_assert(kBlocks == 2 && kConsumerWarpgroups == 2);
    rows_.Sync();
    const float weight = 1.0f / static_cast<float>(rows_.width());
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Floats2 other = LoadAs<Floats2>(row_sums(1 - rows_.warpgroup(), half));
      const float sum = own[half][0] + other.v[0];
      const float mean = sum * weight;
      const float scale = Rsqrt((own[half][1] + other.v[1] - mean * sum) * weight + p_.epsilon);
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
            v = fmaf((v - mean) * scale, g.v[c], b.v[c]);
          }
        }
      }
    }
    rows_.FillOperand(rows_.x);
    rows_.ShareOperand();
  }

  const LayerParams& p_;
  const TileSmem& shared_;
  const float* post_vectors_ = nullptr;
  Rows rows_;
  Ring ring_;
  float sums_[2][kElements];
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_TILE_SM90_CUH_
