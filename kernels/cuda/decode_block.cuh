// What a block of the decode kernel does: one thread fills the ring, all others take the block's
// rows through a step.
#ifndef CHORALE_KERNELS_CUDA_DECODE_BLOCK_CUH_
#define CHORALE_KERNELS_CUDA_DECODE_BLOCK_CUH_

#include "kernels/cuda/attend_keys.cuh"
#include "kernels/cuda/buffer_reader.cuh"
#include "kernels/cuda/chunk_exchange.cuh"
#include "kernels/cuda/decode.h"
#include "kernels/cuda/decode_layout.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/embed_elements.cuh"
#include "kernels/cuda/head_stages.cuh"
#include "kernels/cuda/next_place.cuh"
#include "kernels/cuda/row_stages.cuh"
#include "kernels/cuda/stage_ring.cuh"

namespace chorale::kernels::cuda {

struct DecodeKernelParams {
  const LayerWeights* layers;
  const float* offsets;
  const float* y_weight;
  RowKernelParams rows;  // shapes alone, besides `tiles`
  HeadKernelParams head;
  DecodeLayout shared;
  AttentionTeams teams;
  uint32_t ring_inverse;
  int32_t layer_count;
  int32_t places;
};

// The order in which a context's blocks of keys are streamed, for the passes over heads: rounds of
// as many chunks as a team has lanes; in a round, first the first block of every chunk, then the
// second; of each, the key heads of the pass.
class ContextOrder {
 public:
  __device__ __forceinline__ ContextOrder(int rows, int lanes)
      : lanes_(lanes),
        blocks_(static_cast<int>(ContextBlocks(rows))),
        chunk_blocks_(static_cast<int>(ChunkBlocks(rows))),
        chunks_(static_cast<int>(ContextChunks(rows))),
        full_chunks_(blocks_ / chunk_blocks_),
        blocks_behind_(blocks_ - full_chunks_ * chunk_blocks_) {}

  __device__ __forceinline__ int blocks() const { return blocks_; }
  __device__ __forceinline__ int chunk_blocks() const { return chunk_blocks_; }
  __device__ __forceinline__ int chunks() const { return chunks_; }

  // How many of the chunks from `first` on that the lanes have at once have a block number `block`.
  __device__ __forceinline__ int LanesWith(int first, int block) const {
    const int chunks = full_chunks_ + (block < blocks_behind_ ? 1 : 0);
    return max(0, min(lanes_, chunks - first));
  }

 private:
  const int lanes_;
  const int blocks_;
  const int chunk_blocks_;
  const int chunks_;
  const int full_chunks_;
  const int blocks_behind_;  // in the chunk behind them
};

// The heads of one pass, and the key heads that they attend to.
struct HeadPass {
  int first;
  int end;
  int first_kv;
  int end_kv;

  __device__ __forceinline__ HeadPass(const RowLayerParams& p, int first_head, int heads_at_once)
      : first(first_head), end(min(p.heads, first_head + heads_at_once)) {
    const int heads_of_kv = p.heads / p.kv_heads;
    first_kv = first / heads_of_kv;
    end_kv = (end - 1) / heads_of_kv + 1;
  }
};

__device__ __forceinline__ StageRing RingOf(const DecodeKernelParams& params, int stage_bytes) {
  auto* arrivals = reinterpret_cast<Arrivals*>(Shared() + params.shared.arrivals);
  auto* owner = reinterpret_cast<uint32_t*>(Shared() + params.shared.owners);
  const auto stages = static_cast<uint32_t>(params.shared.stages);
  return {Shared() + params.shared.ring, arrivals,   arrivals + stages, owner, stages,
          params.ring_inverse,           stage_bytes};
}

// Everything that the block's rows need for so many steps, in the order in which DecodeBlock takes
// it.
template <int kHeadDim>
__device__ __forceinline__ void FillRing(const DecodeKernelParams& params, const Tile& tile,
                                         int steps) {
  const RowLayerParams& p = params.rows.rows;
  const StageRing ring = RingOf(params, StageBytes(kHeadDim));
  RingFiller filler(ring);
  const ContextOrder order(tile.context_rows, params.teams.lanes);
  const auto leave = static_cast<int>(LeaveSlabs(p.width, ProjectedWidth(p)));
  const auto finish = static_cast<int>(FinishSlabs(p.width, p.heads * p.head_dim, p.hidden));
  const int64_t layer_size = ContextLayerSize(tile.context_rows, p.kv_heads, kHeadDim);
  for (int step = 0; step < steps; ++step) {
    for (int layer = 0; layer < params.layer_count; ++layer) {
      const LayerWeights weights = params.layers[layer];
      filler.FillSlabs(weights.leave.slabs, leave);
      const uint16_t* context = tile.context + layer * layer_size;
      for (int head = 0; head < p.heads; head += params.teams.heads_at_once) {
        const HeadPass pass(p, head, params.teams.heads_at_once);
        for (int first = 0; first < order.chunks(); first += params.teams.lanes) {
          for (int block = 0; block < order.chunk_blocks(); ++block) {
            const int lanes = order.LanesWith(first, block);
            for (int lane = 0; lane < lanes; ++lane) {
              const int at = (first + lane) * order.chunk_blocks() + block;
              for (int kv = pass.first_kv; kv < pass.end_kv; ++kv) {
                filler.Fill(context + (kv * order.blocks() + at) * BlockSize(kHeadDim),
                            AttentionTraits<kHeadDim>::kBlockBytes);
              }
            }
          }
        }
      }
      filler.FillSlabs(weights.finish.slabs, finish);
    }
  }
}

// The threads of kDecodeWarps warps, with the rows of kGroups groups of a tile. D is at most
// kPanels slabs wide.
template <int kHeadDim, int kGroups, int kPanels>
class DecodeBlock {
  using T = AttentionTraits<kHeadDim>;
  static constexpr int kRows = kGroups * kGroupRows;
  static_assert(T::kBlockBytes == StageBytes(kHeadDim));
  static constexpr int kOwn = TeamGroups(kHeadDim, kGroups);  // of a warp's attention
  static constexpr int kTeamsOfHead = kGroups / kOwn;
  using Merged = MergedState<kHeadDim, kDecodeWarps * kWarp>;
  static_assert(kOwn * Merged::kBytes <= ExchangeBytes(kHeadDim, kGroups));

 public:
  // `tile` and `paths`, in shared memory, become what they are at each step.
  __device__ __forceinline__ DecodeBlock(const DecodeKernelParams& params, Tile* tile,
                                         PathTile* paths, int first_group)
      : params_(params),
        p_(params.rows.rows),
        ring_(RingOf(params, StageBytes(kHeadDim))),
        rows_(params.rows),
        tile_(tile),
        paths_(paths),
        first_group_(first_group) {
    rows_.SetTile(tile);
    FetchLeaveVectors(0);
    KeepHeadVectors<kDecodeWarps>(params.head, reinterpret_cast<float*>(Shared()));
  }

  // The targets and buffer tokens at the current place, through all layers and the head; then the
  // next place.
  __device__ __forceinline__ void Step() {
    Embed();
    for (int layer = 0; layer < params_.layer_count; ++layer) Layer(layer);
    Head();
    if (ThreadIndex() == 0) SetNextPlace(paths_->place, *tile_, *paths_);
    rows_.Sync();
  }

 private:
  using Weights = RingWeights<kGroups, StageBytes(kHeadDim)>;

  // x of targets and tokens, as LaunchEmbedPaths has it, a row a warp. Zeros fill the operand up:
  // what no product stores is multiplied with zeros, and must be finite for that.
  __device__ __forceinline__ void Embed() {
#pragma unroll 1
    for (int row = ThreadIndex() / kWarp; row < kRows; row += kDecodeWarps) {
      const int path = (first_group_ + row / kGroupRows) * kGroupPaths + row % kGroupPaths;
      const PathRow from =
          PathRowOf(*paths_, path, row % kGroupRows >= kGroupPaths, params_.places);
      const float* encoding = paths_->encodings + from.target * p_.width;
      const float* offset = params_.offsets + from.offset * p_.width;
#pragma unroll 1
      for (int c = ThreadIndex() % kWarp * 4; c < rows_.operand_inputs(); c += kWarp * 4) {
        Floats4 x = {};
        if (!from.empty && c < p_.width) {
          x = EmbedElements(encoding + c, offset + c, params_.y_weight + c, from.y);
        }
        rows_.StoreRow(row, c, x);
      }
    }
    rows_.Sync();
  }

  __device__ __forceinline__ void FetchLeaveVectors(int layer) const {
    rows_.FetchLeaveVectors(params_.layers[layer].leave.vectors);
    CommitCopies();
  }

  // All products in one loop, see Rows. Vectors are on their way for half a layer: when those of
  // one half are waited for, those of the other may still be.
  __device__ __forceinline__ void Layer(int layer) {
    constexpr auto kFeature = static_cast<int>(RowProduct::kFeature);
    constexpr auto kProjection = static_cast<int>(RowProduct::kProjection);
    constexpr auto kAttention = static_cast<int>(RowProduct::kAttention);
    static_assert(kAttention == 0 && kProjection == kFeature + 1 && kProjection == kProducts - 1);
    Weights weights(ring_, next_stage_);
    rows_.FetchFinishVectors(params_.layers[layer].finish.vectors);
    CommitCopies();
#pragma unroll 1
    for (int i = 0; i < kProducts; ++i) {
      const int product = kFeature + i < kProducts ? kFeature + i : kFeature + i - kProducts;
      if (product == kFeature || product == kAttention) WaitForCopies<1>();
      rows_.Multiply(static_cast<RowProduct>(product), weights, false);
      if (product == kFeature) FetchLeaveVectors(layer + 1 < params_.layer_count ? layer + 1 : 0);
      if (product == kProjection) AttendToAll(layer);
    }
  }

  __device__ __forceinline__ void AttendToAll(int layer) {
    rows_.Leave(layer);
    rows_.Sync();  // a path's own new keys are there
#pragma unroll 1
    for (int head = 0; head < p_.heads; head += params_.teams.heads_at_once) Attend(layer, head);
    rows_.Sync();
  }

  // operand = attention, of the heads from first_head on that are attended to at once.
  __device__ __forceinline__ void Attend(int layer, int first_head) {
    const int warp = ThreadIndex() / kWarp;
    const int lane = ThreadIndex() % kWarp;
    const int lanes = params_.teams.lanes;
    const int team = warp / lanes;
    const int own = warp - team * lanes;  // chunk of each round
    const HeadPass pass(p_, first_head, params_.teams.heads_at_once);
    const int first_group = team % kTeamsOfHead * kOwn;
    const int head = pass.first + team / kTeamsOfHead;
    const bool busy = team / kTeamsOfHead < params_.teams.heads_at_once && head < pass.end;
    const int heads_of_kv = p_.heads / p_.kv_heads;
    const int kv = head / heads_of_kv;
    const int kv_heads = pass.end_kv - pass.first_kv;
    const Tile& tile = *tile_;
    const ContextOrder order(tile.context_rows, lanes);

    // Of the warps that read a key head's stage, one arrives for all who are missing.
    const int first_reader = max(pass.first, kv * heads_of_kv);
    const int readers = (min(pass.end, (kv + 1) * heads_of_kv) - first_reader) * kTeamsOfHead;
    const int arrivals =
        head == first_reader && first_group == 0 ? kStageReaders - readers + 1 : 1;

    Queries<kHeadDim> q[kOwn];
    if (busy) {
#pragma unroll
      for (int m = 0; m < kOwn; ++m) {
        q[m].LoadOperand(rows_.wide(first_group + m), head * kHeadDim, lane);
      }
    }
    const int first_path = (first_group_ + first_group) * kGroupPaths + lane / 4;
    BufferReader<kHeadDim, kOwn> buffers(tile, layer, p_.kv_heads, busy ? kv : 0, first_path,
                                         order.chunks());
    float* const memory = reinterpret_cast<float*>(Shared() + params_.shared.exchange);
    const auto merged_of = [memory](int m) {
      return Merged(memory + m * (Merged::kBytes / 4));
    };
    ChunkExchange<kHeadDim, kOwn> exchange(
        memory + team * lanes * kOwn * kGroupRows * ExchangeStride(kHeadDim), lanes, own, 2 + team);
    if (lanes == 1) {
#pragma unroll
      for (int m = 0; m < kOwn; ++m) merged_of(m).Clear();
    }
    RowState<kHeadDim> states[kOwn];
#pragma unroll 1
    for (int first = 0; first < order.chunks(); first += lanes) {
      const int chunk = first + own;
      const bool has_chunk = busy && chunk < order.chunks();
      if (has_chunk) buffers.Begin(chunk);
#pragma unroll
      for (int m = 0; m < kOwn; ++m) states[m].Clear();
#pragma unroll 1
      for (int block = 0; block < order.chunk_blocks(); ++block) {
        const int with_block = order.LanesWith(first, block);
        if (busy && own < with_block) {
          const uint32_t stage = next_stage_ + own * kv_heads + kv - pass.first_kv;
          const uint16_t* keys = ring_.Wait(stage);
          const int first_key = (chunk * order.chunk_blocks() + block) * kBlockKeys;
          AttendKeys(keys, 0, min(kBlockKeys, tile.context_rows - first_key), q, states);
          ring_.Release(stage, arrivals);
        }
        next_stage_ += with_block * kv_heads;
      }
      if (has_chunk) {
        buffers.Attend(chunk, q, states);
#pragma unroll
        for (int m = 0; m < kOwn; ++m) states[m].FinishChunk();
      }
      if (!busy) continue;
      if (lanes == 1) {
#pragma unroll
        for (int m = 0; m < kOwn; ++m) merged_of(m).Merge(states[m]);
      } else {
        exchange.Merge(states, min(lanes, order.chunks() - first));
      }
    }
    if (!busy) return;
    if (lanes == 1) {
#pragma unroll
      for (int m = 0; m < kOwn; ++m) StoreAttention(first_group + m, head, states[m]);
      return;
    }
    exchange.Finish([&](int row, int column, const Floats4& attention) {
      rows_.StoreAttention(first_group * kGroupRows + row, head * kHeadDim + column, attention);
    });
  }

  // Of a state that all chunks were merged to.
  __device__ __forceinline__ void StoreAttention(int group, int head,
                                                 const RowState<kHeadDim>& state) {
    const int lane = ThreadIndex() % kWarp;
    float divisor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      divisor[half] = state.l[half] > 0 ? Reciprocal(state.l[half]) : 0.0f;
    }
#pragma unroll
    for (int n = 0; n < T::kColumns; ++n) {
      const float(&o)[4] = state.o[n];
      rows_.StoreAttention(group, lane / 4, head * kHeadDim + 8 * n + lane % 4 * 2,
                           PackBf16(o[0] * divisor[0], o[1] * divisor[0]),
                           PackBf16(o[2] * divisor[1], o[3] * divisor[1]));
    }
  }

  // Values and log-densities of the targets, a group at a time.
  __device__ __forceinline__ void Head() {
    const HeadKernelParams& head = params_.head;
    float* const shared = reinterpret_cast<float*>(Shared());
    const int warp = ThreadIndex() / kWarp;
    const int groups = min(kGroups, tile_->groups - first_group_);
#pragma unroll 1
    for (int group = 0; group < groups; ++group) {
      HeadBatch batch;
      LoadBatch(ShareOf(head, 0, warp).weight, batch);
      if (warp == 0 && ThreadIndex() % kWarp < kHeadRows) {
        MakeDraws(head, first_group_ + group, shared);
      }
      if (warp < kHeadRows) {
        const float* x = rows_.x(group * kGroupRows + warp);
        NormalizeHeadRow(
            head, [x](int i) { return x[i]; }, warp, shared);
      }
      rows_.Sync();
      MultiplyHead<kDecodeWarps>(head, batch, shared);
      EmitRows<kDecodeWarps>(head, 0, first_group_ + group, shared);
      rows_.Sync();
    }
  }

  const DecodeKernelParams& params_;
  const RowLayerParams& p_;
  const StageRing ring_;
  Rows<kGroups, kPanels, kDecodeWarps> rows_;
  Tile* const tile_;
  PathTile* const paths_;
  const int first_group_;
  uint32_t next_stage_ = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_DECODE_BLOCK_CUH_
