// The warpgroups of LayersKernel that compute (compute capability 9.0).
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYERS_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYERS_SM90_CUH_

#include "kernels/cuda/attention/key_log_weights.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/embed/path_rows.cuh"
#include "kernels/cuda/layer/head_attention_sm90.cuh"
#include "kernels/cuda/layer/layer_tile_sm90.cuh"
#include "kernels/cuda/layer/layers_buffers_sm90.cuh"
#include "kernels/cuda/layer/layers_params_sm90.cuh"
#include "kernels/cuda/layer/layers_paths_sm90.cuh"
#include "kernels/cuda/layer/layers_units_sm90.cuh"
#include "kernels/cuda/layer/smem_layers_sm90.h"
#include "kernels/cuda/layer/tile_rows_sm90.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// The warps that attend to the context and compute all products with weights. In attention, a
// warpgroup has one head; in GEMMs, as in TileRows.
//
// kWholePaths, kWeighted: as LayersParams::whole_paths and weighted.
template <bool kWholePaths, bool kWeighted>
class LayersConsumer {
  static constexpr int kHeadDim = kLayersHeadDim;
  static constexpr int kWidth = LayersShape().width;
  using Block = TileLayerBlock<kHeadDim, UnitReader, kWidth, /*kAllLayers=*/true>;
  using Rows = TileRows<kHeadDim, kWidth>;

 public:
  __device__ __forceinline__ LayersConsumer(const LayersKernelParams& params, const Tile& tile)
      : params_(params),
        tile_(tile),
        warpgroup_(WarpgroupIndex()),
        block_(params.layer, params.shared.tile, UnitReader(params, warpgroup_), tile) {}

  __device__ __forceinline__ void Run() {
    auto& barriers = LayersBarriers::Of(params_);
#pragma unroll 1
    for (int layer = -1; layer < params_.layers; ++layer) {
      if (layer >= 0) {
        Attend(layer);
      } else {
        Embed();
        block_.rows().RoundX();
      }
      block_.rows().StoreHalf(block_.rows().operand(), block_.rows().own);
      const int slot = (layer + 1) % kVectorSlots;
      MbarrierWait(&barriers.vectors_full[slot], (layer + 1) / kVectorSlots & 1);
      const float* const vectors =
          params_.shared.vectors.At(DynamicSmem()) + slot * params_.shared.vectors_size;
      const bool has_pre = layer + 1 < params_.layers;
      block_.Compute(layer >= 0, has_pre, vectors, vectors + params_.shared.post_vectors_size,
                     [&](int tile, const auto& qkv) { StoreQkv(layer + 1, tile, qkv); });
      FenceProxyAsync();        // q, which wgmma reads
      FenceProxyAsyncGlobal();  // K and V, which bulk copies read
      __syncwarp();
      if (LaneIndex() == 0) {
        MbarrierArrive(&barriers.vectors_empty[slot]);
        if (has_pre) MbarrierArrive(&barriers.q_ready);
      }
    }
  }

 private:
  // Also rows that are not in use; no output depends on those.
  __device__ __forceinline__ void Embed() {
    const PathTile& paths = *params_.shared.paths_copy.At(DynamicSmem());
    Rows& rows = block_.rows();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PathRow row =
          PathRowOf(paths, rows.pair(), /*is_token=*/half == 1, params_.paths.buffer_positions);
#pragma unroll
      for (int block = 0; block < Rows::kBlocks; ++block) {
#pragma unroll
        for (int quad = 0; quad < 2; ++quad) {
          const int column = rows.ColumnOf(block) + 4 * quad;
          Floats4 x = {};
          if (!row.empty) {
            x = EmbedColumns(paths.encodings + row.query_row * kWidth + column,
                             params_.paths.offsets + row.offset * kWidth + column,
                             params_.paths.y_weight + column, row.y);
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) rows.x[Rows::At(block, half, 4 * quad + i)] = x.v[i];
        }
      }
    }
  }

  __device__ __forceinline__ void SyncAll() const {
    NamedBarrierSync<kConsumerWarps * kWarpSize>(kConsumersBarrier);
  }

  __device__ __forceinline__ void StoreQkv(int layer, int weight_tile,
                                           const typename Rows::Elements& qkv) {
    if (weight_tile == 0) {
      SyncAll();  // the MLP of other warps has read `hidden`
      uint16_t* const queries = params_.shared.queries.At(DynamicSmem());
      block_.rows().ForPieces(qkv, [&](int half, int column, const Words4& words) {
        StoreShared(queries + warpgroup_ * (kTileRows * kHeadDim) +
                        KeyBlockKeyAt(block_.rows().RowOf(half), column % kHeadDim, kHeadDim),
                    words);
      });
      return;
    }
    // The rows g + 8 are buffer tokens; a warpgroup has the columns of its head.
    if constexpr (kWholePaths) {
      StoreToken(weight_tile == 2, qkv);
    } else {
      StoreToBuffer(layer, weight_tile == 2, qkv);
    }
  }

  // K, or V, of the tokens of whole paths.
  __device__ __forceinline__ void StoreToken(bool is_value,
                                             const typename Rows::Elements& elements) {
    const PathKeys keys(params_, warpgroup_);
    bool finite = true;
    block_.rows().ForPieces(elements, [&](int half, int column, const Words4& words) {
      if (half == 0) return;
      if (is_value) {
        keys.StoreValue(column % kHeadDim, words, finite);
      } else {
        keys.StoreKey(column % kHeadDim, words);
      }
    });
    if (is_value) keys.StoreFinite(finite);
  }

  __device__ __forceinline__ void StoreToBuffer(int layer, bool is_value,
                                                const typename Rows::Elements& elements) {
    const int path = block_.rows().pair();
    if (tile_.append_position < 0 || path >= tile_.groups * kGroupPaths) return;
    uint16_t* to = tile_.buffer +
                   layer * BufferLayerSize(tile_.buffer_capacity, tile_.buffer_paths,
                                           kConsumerWarpgroups, kHeadDim) +
                   BufferKeyAt(warpgroup_, tile_.append_position, path, tile_.buffer_capacity,
                               tile_.buffer_paths, kHeadDim);
    if (is_value) to += tile_.buffer_paths * kHeadDim;
    block_.rows().ForPieces(elements, [&](int half, int column, const Words4& words) {
      if (half == 1) StoreGlobal(to + column % kHeadDim, words);
    });
  }

  // The warpgroup's half of the operand becomes attention. Loads x, too.
  __device__ __forceinline__ void Attend(int layer) {
    MbarrierWait(&LayersBarriers::Of(params_).q_ready, layer & 1);
    if constexpr (kWeighted) {
      if (tile_.context_log_weights != nullptr) {
        return Attend(layer, KeyLogWeights(tile_, layer, warpgroup_, kConsumerWarpgroups));
      }
    }
    Attend(layer, NoLogWeights());
  }
  template <typename Weights>
  __device__ __forceinline__ void Attend(int layer, const Weights& log_weights) {
    auto& barriers = LayersBarriers::Of(params_);
    const int warp = WarpIndex() % kWarpgroupWarps;
    HeadAttention<Weights> attention(block_.ring(), QueriesOf(params_, DynamicSmem(), warpgroup_),
                                     tile_.context_rows, log_weights);
    const bool needs = attention.PlainSweep() && warp < tile_.groups;
    const uint32_t lanes = __ballot_sync(kAllLanes, needs);
    if (LaneIndex() == 0) {
      barriers.votes[warpgroup_][warp] = lanes;
      MbarrierArrive(&barriers.voted[warpgroup_]);
    }
    MbarrierWait(&barriers.voted[warpgroup_], layer & 1);
    uint32_t votes = 0;
#pragma unroll
    for (int i = 0; i < kWarpgroupWarps; ++i) votes |= barriers.votes[warpgroup_][i];
    if (votes != 0) {
      // The weights that were sent already come again after the keys.
      for (int i = 0; i < kUnits; ++i) block_.ring().Release(block_.ring().Take());
      attention.ShiftedSweep();
    }
    block_.rows().Renew();
    block_.rows().LoadSavedX();  // arrives while the warp waits for the buffers
    RowState<kHeadDim>& state = attention.combined;
    CombineWithTokens(layer, state);
    uint32_t words[AttentionTraits<kHeadDim>::kColumns][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float divisor = state.l[half] > 0 ? Rcp(state.l[half]) : 0.0f;
#pragma unroll
      for (int n = 0; n < AttentionTraits<kHeadDim>::kColumns; ++n) {
        words[n][half] =
            PackBf16(state.o[n][2 * half] * divisor, state.o[n][2 * half + 1] * divisor);
      }
    }
    block_.rows().FillOperandFromSums(words);
    SyncAll();  // all warps have read queries, keys of paths, and the states of the buffers
  }

  // Combines the attention to the context with that to the tokens of the paths.
  __device__ __forceinline__ void CombineWithTokens(int layer, RowState<kHeadDim>& state) const {
    RowState<kHeadDim> of_tokens;
    if constexpr (kWholePaths) {
      PathKeys(params_, warpgroup_)
          .Attend(QueriesOf(params_, DynamicSmem(), warpgroup_), tile_.path_positions, of_tokens);
    } else {
      MbarrierWait(&LayersBarriers::Of(params_).buffers_done, layer & 1);
      if (TileBuffers(tile_, LayersShape(), layer, 0).positions == 0) return;
      BufferStateOf(params_, DynamicSmem(), warpgroup_, LaneIndex()).Load(of_tokens);
    }
    state.Combine(of_tokens);
  }

  const LayersKernelParams& params_;
  const Tile& tile_;
  const int warpgroup_;
  Block block_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYERS_SM90_CUH_
