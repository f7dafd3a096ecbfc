// The buffers in LayersKernel: the warp that copies them, and the warpgroup that attends to them.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYERS_BUFFERS_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYERS_BUFFERS_SM90_CUH_

#include "base/integer_math.h"
#include "kernels/cuda/attention/buffer_split.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/attention/transposed_buffer_split.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/layer/layers_params_sm90.cuh"
#include "kernels/cuda/layer/smem_layers_sm90.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// The states of the buffers, computed by one warpgroup for the others. o lies where the operand and
// the second part of the hidden layer are outside attention.
using BufferState = CombinedState<kLayersHeadDim, kWarpgroupThreads>;

// That of lane `lane` of the consumer warp with this warp's index in its warpgroup. `smem`:
// DynamicSmem or OwnSmem, likewise below.
__device__ __forceinline__ BufferState BufferStateOf(const LayersKernelParams& params, char* smem,
                                                     int head, int lane) {
  char* const operand = reinterpret_cast<char*>(params.shared.tile.operand.At(smem));
  char* const hidden = reinterpret_cast<char*>(params.shared.tile.hidden.At(smem));
  static_assert(BufferState::kSumsBytes == 2 * kOperandTileSize);
  char* const ml = params.shared.buffer_ml.At(smem);
  return {head == 0 ? operand : hidden + 2 * kOperandTileSize, ml + head * BufferState::kMlBytes,
          WarpIndex() % kWarpgroupWarps * kWarpSize + lane};
}
__device__ __forceinline__ uint32_t QueriesOf(const LayersKernelParams& params, char* smem,
                                              int head) {
  return SmemAddress(params.shared.queries.At(smem)) +
         head * WgmmaKeys<kLayersHeadDim>::kQueryBytes;
}

// Combines a split with the splits before it, unless it is the first one. BufferState has a path's
// state for each of the four lanes that have its rows.
__device__ __forceinline__ void CombineStates(const LayersKernelParams& params, char* smem,
                                              int head, bool is_first,
                                              const TransposedState<kLayersHeadDim>& split) {
  const int g = LaneIndex() / 4;
  const int j = LaneIndex() % 4;
#pragma unroll
  for (int quad = 0; quad < kGroupQuads; ++quad) {
    // Columns g and 8 + g are of the lane that has columns 2 (g / 2) and the next one.
    const BufferState to = BufferStateOf(params, smem, head, (quad * kQuadPaths + j) * 4 + g / 2);
    CombineScale scale[2];
    float m[2];
    float l[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int i = 2 * quad + row;
      if (is_first) {
        m[row] = split.m[i];
        l[row] = split.l[i];
      } else {
        m[row] = to.M(row);
        scale[row] = CombineMax(m[row], split.m[i]);
        l[row] = CombineSum(to.L(row), split.l[i], scale[row]);
      }
    }
#pragma unroll
    for (int i = 0; i < kLayersHeadDim / 4; ++i) {
      float& o = to.O(i % 2, i / 2 * 2 + g % 2);
      const float more = split.o[quad][i / 4][i % 4];
      o = is_first ? more : CombineSum(o, more, scale[i % 2]);
    }
    __syncwarp();  // both lanes that compute m and l have read those before
    if (g % 2 != 0) continue;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      to.M(row) = m[row];
      to.L(row) = l[row];
    }
  }
}

// A warp's view of the stages of buffers: as RingReader.
class BufferReader {
 public:
  __device__ __forceinline__ BufferReader(const LayersKernelParams& params, char* smem)
      : memory_(SmemAddress(params.shared.buffer_stages.At(smem))),
        barriers_(LayersBarriers::Of(params, smem)) {}

  __device__ __forceinline__ int Take() {
    const int stage = next_;
    MbarrierWait(&barriers_.buffers_full[stage], parity_);
    __syncwarp();
    if (++next_ == kBufferStages) {
      next_ = 0;
      parity_ ^= 1;
    }
    return stage;
  }
  __device__ __forceinline__ void Release(int stage) const {
    __syncwarp();
    if (LaneIndex() == 0) MbarrierArrive(&barriers_.buffers_empty[stage]);
  }
  __device__ __forceinline__ uint32_t Address(int stage) const {
    return memory_ + stage * BufferStage<kLayersHeadDim>::kBytes;
  }

 private:
  const uint32_t memory_;
  LayersBarriers& barriers_;
  int next_ = 0;
  uint32_t parity_ = 0;
};

// Copies the buffers of all layers to the stages: of each head all splits, of each split all
// chunks, of each chunk K, then V. A chunk to which this step adds no position may come before the
// layer's K and V are stored. Called by one warp, of which a lane copies each position of a chunk.
//
// A chunk may end beyond the last position. There, a stage keeps what it had, which has no weight.
// Scores of a K that was left are masked. A V that was left is zeros, or a V of the same paths: if
// it is not finite, neither are the rows of its path, since they have attended to it.
__device__ __forceinline__ void FillBuffers(const LayersKernelParams& params, const Tile& tile) {
  using Stage = BufferStage<kLayersHeadDim>;
  static_assert(kBufferStages == 2);  // K are in the first one, V in the second one
  char* const smem = OwnSmem();
  char* const stages = params.shared.buffer_stages.At(smem);
  auto& barriers = LayersBarriers::Of(params, smem);
  // Without positions, nobody would keep the warp from falling behind, and only parities of phases
  // are observable.
  const int lane = LaneIndex();
  const TileBuffers first_layer(tile, LayersShape(), 0, 0);
  const int positions = first_layer.positions;
  const int row_bytes = first_layer.row_bytes;
  if (positions == 0) return;
  for (int at = lane * 16; at < Stage::kBytes; at += kWarpSize * 16) {
    StoreShared(stages + Stage::kBytes + at, Words4{});
  }
  FenceProxyAsync();  // before bulk copies to the same addresses
  const int old_positions = tile.append_position < 0 ? tile.buffer_capacity : tile.append_position;
  uint32_t parity = 1;
#pragma unroll 1
  for (int layer = 0; layer < params.layers; ++layer) {
    bool is_ready = false;
#pragma unroll 1
    for (int head = 0; head < kConsumerWarpgroups; ++head) {
      const char* const keys =
          TileBuffers(tile, LayersShape(), layer, head).keys + int64_t{2} * lane * row_bytes;
#pragma unroll 1
      for (int split = 0; split < kMaxBufferSplits; ++split) {
#pragma unroll 1
        for (int first = split * kBufferChunk; first < positions;
             first += kMaxBufferSplits * kBufferChunk) {
          if (!is_ready && first + kBufferChunk > old_positions) {
            MbarrierWait(&barriers.q_ready, layer & 1);
            is_ready = true;
          }
          const int count = min(Stage::kPositions, positions - first);
#pragma unroll 1
          for (int stage = 0; stage < kBufferStages; ++stage) {
            MbarrierWait(&barriers.buffers_empty[stage], parity);
            if (lane == 0) {
              MbarrierArriveExpectTx(&barriers.buffers_full[stage], count * row_bytes);
            }
            __syncwarp();  // bytes are expected before any arrive
            if (lane < count) {
              CpAsyncBulkOnce(stages + stage * Stage::kBytes + lane * Stage::kPositionBytes,
                              keys + int64_t{2 * first + stage} * row_bytes, row_bytes,
                              &barriers.buffers_full[stage]);
            }
          }
          parity ^= 1;
        }
      }
    }
    // Phases of q_ready must not be skipped.
    if (!is_ready) MbarrierWait(&barriers.q_ready, layer & 1);
  }
}

// The warpgroup that attends to the buffers, while the others attend to the context: each warp with
// the rows of its group, in both heads.
__device__ __forceinline__ void AttendToBuffers(const LayersKernelParams& params,
                                                const Tile& tile) {
  char* const smem = OwnSmem();
  auto& barriers = LayersBarriers::Of(params, smem);
  const int group = WarpIndex() % kWarpgroupWarps;
  const int positions = TileBuffers(tile, LayersShape(), 0, 0).positions;
  const int splits = min(kMaxBufferSplits, static_cast<int>(CeilDiv(positions, kBufferChunk)));
  BufferReader reader(params, smem);
#pragma unroll 1
  for (int layer = 0; layer < params.layers; ++layer) {
    MbarrierWait(&barriers.q_ready, layer & 1);
#pragma unroll 1
    for (int head = 0; head < kConsumerWarpgroups; ++head) {
      const TransposedBufferSplit<kLayersHeadDim, BufferReader> rows(tile, group,
                                                                     QueriesOf(params, smem, head));
      TransposedState<kLayersHeadDim> state;
      if (positions <= kMaxBufferSplits * kBufferChunk) {
        state.Clear();
#pragma unroll 1
        for (int split = 0; split < splits; ++split) rows.AttendToChunk(split, reader, state);
        CombineStates(params, smem, head, /*is_first=*/true, state);
      } else {
#pragma unroll 1
        for (int split = 0; split < splits; ++split) {
          rows.Attend(positions, split, reader, state);
          if (group >= tile.groups) continue;
          CombineStates(params, smem, head, /*is_first=*/split == 0, state);
        }
      }
    }
    __syncwarp();
    if (LaneIndex() == 0) MbarrierArrive(&barriers.buffers_done);
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYERS_BUFFERS_SM90_CUH_
