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
#include "kernels/cuda/leave_rows.cuh"
#include "kernels/cuda/next_place.cuh"
#include "kernels/cuda/product_rows.cuh"
#include "kernels/cuda/stage_ring.cuh"

namespace chorale::kernels::cuda {

struct DecodeKernelParams {
  const LayerWeights* layers;
  const float* offsets;
  const float* y_weight;
  RowLayerParams rows;  // shapes alone, besides `tiles`
  HeadKernelParams head;
  DecodeLayout shared;
  AttentionTeams teams;
  uint32_t ring_inverse;
  int32_t heads_of_kv;
  int32_t kv_inverse;  // head / heads_of_kv is head * kv_inverse / 2^16
  int32_t layer_count;
  int32_t places;
};

// The order in which a context's blocks of keys are streamed, for the passes over heads: rounds of
// as many chunks as a team has lanes; in a round, first the first block of every chunk, then the
// second; of each, the key heads of the pass.
struct ContextOrder {
  int rows = 0;
  int blocks = 0;
  int chunk_blocks = 0;
  int chunks = 0;
  int full_chunks = 0;
  int blocks_behind = 0;  // in the chunk behind them

  // How many of the chunks from `first` on that `lanes` lanes have at once have a block number
  // `block`.
  __device__ __forceinline__ int LanesWith(int lanes, int first, int block) const {
    const int with_block = full_chunks + (block < blocks_behind ? 1 : 0);
    return max(0, min(lanes, with_block - first));
  }
};

__device__ __forceinline__ ContextOrder ContextOrderOf(int rows) {
  ContextOrder order = {.rows = rows,
                        .blocks = static_cast<int>(ContextBlocks(rows)),
                        .chunk_blocks = static_cast<int>(ChunkBlocks(rows)),
                        .chunks = static_cast<int>(ContextChunks(rows))};
  order.full_chunks = order.blocks / order.chunk_blocks;
  order.blocks_behind = order.blocks - order.full_chunks * order.chunk_blocks;
  return order;
}

// The heads of one pass, and the key heads that they attend to.
struct HeadPass {
  int first;
  int end;
  int first_kv;
  int end_kv;

  __device__ __forceinline__ HeadPass(const DecodeKernelParams& params, int first_head)
      : first(first_head), end(min(params.rows.heads, first_head + params.teams.heads_at_once)) {
    first_kv = KeyHeadOf(params, first);
    end_kv = KeyHeadOf(params, end - 1) + 1;
  }

  __device__ __forceinline__ static int KeyHeadOf(const DecodeKernelParams& params, int head) {
    return head * params.kv_inverse >> 16;
  }
};

__device__ __forceinline__ StageRing RingOf(const DecodeKernelParams& params, int stage_bytes) {
  auto* arrivals = reinterpret_cast<Arrivals*>(Shared() + params.shared.arrivals);
  auto* asked = reinterpret_cast<uint32_t*>(Shared() + params.shared.asked);
  const auto stages = static_cast<uint32_t>(params.shared.stages);
  return {Shared() + params.shared.ring, arrivals,   arrivals + stages, asked, stages,
          params.ring_inverse,           stage_bytes};
}

// Everything that the block's rows need for so many steps, in the order in which DecodeBlock takes
// it.
template <int kHeadDim>
__device__ __forceinline__ void FillRing(const DecodeKernelParams& params, const Tile& tile,
                                         int steps) {
  const RowLayerParams& p = params.rows;
  const StageRing ring = RingOf(params, StageBytes(kHeadDim));
  RingFiller filler(ring);
  const ContextOrder order = ContextOrderOf(tile.context_rows);
  const auto leave = static_cast<int>(LeaveSlabs(p.width, ProjectedWidth(p)));
  const auto finish = static_cast<int>(FinishSlabs(p.width, p.heads * p.head_dim, p.hidden));
  const int64_t layer_size = ContextLayerSize(tile.context_rows, p.kv_heads, kHeadDim);
  for (int step = 0; step < steps; ++step) {
    for (int layer = 0; layer < params.layer_count; ++layer) {
      const LayerWeights weights = params.layers[layer];
      filler.FillSlabs(weights.leave.quarters, leave);
      const uint16_t* context = tile.context + layer * layer_size;
      for (int head = 0; head < p.heads; head += params.teams.heads_at_once) {
        const HeadPass pass(params, head);
        for (int first = 0; first < order.chunks; first += params.teams.lanes) {
          for (int block = 0; block < order.chunk_blocks; ++block) {
            const int lanes = order.LanesWith(params.teams.lanes, first, block);
            for (int lane = 0; lane < lanes; ++lane) {
              const int at = (first + lane) * order.chunk_blocks + block;
              for (int kv = pass.first_kv; kv < pass.end_kv; ++kv) {
                filler.Fill(context + (kv * order.blocks + at) * BlockSize(kHeadDim),
                            AttentionTraits<kHeadDim>::kBlockBytes);
              }
            }
          }
        }
      }
      filler.FillSlabs(weights.finish.quarters, finish);
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
  using Merged = MergedState<kHeadDim, kDecodeWarps * kWarp>;
  static_assert(Merged::kBytes <= ExchangeBytes(kHeadDim));

 public:
  // In shared memory; `tile` and `paths` become what they are at each step.
  __device__ __forceinline__ DecodeBlock(const DecodeKernelParams& params, Tile* tile,
                                         PathTile* paths, const ContextOrder* order,
                                         int first_group)
      : params_(params),
        p_(params.rows),
        ring_(RingOf(params, StageBytes(kHeadDim))),
        rows_(params.rows, params.shared.rows),
        tile_(tile),
        paths_(paths),
        order_(order),
        first_group_(first_group) {
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
    rows_.SyncOperands();
  }

  __device__ __forceinline__ void FetchLeaveVectors(int layer) const {
    rows_.FetchLeaveVectors(params_.layers[layer].leave.vectors);
    CommitCopies();
  }

  // Vectors are on their way for half a layer: when those of one half are waited for, those of the
  // other may still be.
  __device__ __forceinline__ void Layer(int layer) {
    rows_.FetchFinishVectors(params_.layers[layer].finish.vectors);
    CommitCopies();
    // In one loop: a kernel waits for its instructions, too.
#pragma unroll 1
    for (int i = 0; i < kRowProducts; ++i) {
      constexpr auto kFirst = static_cast<int>(RowProduct::kFeature);
      const auto product = static_cast<RowProduct>(
          kFirst + i < kRowProducts ? kFirst + i : kFirst + i - kRowProducts);
      if (product == RowProduct::kFeature || product == RowProduct::kAttention) WaitForCopies<1>();
      rows_.Multiply(product, ring_, next_stage_);
      if (product == RowProduct::kFeature) {
        FetchLeaveVectors(layer + 1 < params_.layer_count ? layer + 1 : 0);
      }
      if (product == RowProduct::kProjection) AttendToAll(layer);
    }
  }

  // Brings K and V of the paths' new tokens from where the projection left them to their buffers: a
  // lane 8 columns of a row.
  __device__ __forceinline__ void Leave(int layer) const {
    if (tile_->append_place < 0) return;
    const int g = ThreadIndex() % kWarp / 4;
    const int queries = p_.heads * kHeadDim;
    const int kv_width = p_.kv_heads * kHeadDim;
#pragma unroll 1
    for (int i = ThreadIndex() / kWarp; i / kGroups * 32 < 2 * kv_width; i += kDecodeWarps) {
      const int group = i % kGroups;
      int column = i / kGroups * 32 + ThreadIndex() % 4 * 8;
      if (column >= 2 * kv_width) continue;
      // Each pair of columns of row g, and behind it of row g + 8: the token's.
      const uint16_t* from = rows_.projected(group) + OperandAt(kGroupPaths, 0, 0);
      const uint16_t* pairs = from + OperandAt(g, queries + column, 0);
      const uint16_t* more = from + OperandAt(g, queries + column + 4, 0);
      const Words4 words = {LoadAs<uint32_t>(pairs), LoadAs<uint32_t>(pairs + 4),
                            LoadAs<uint32_t>(more), LoadAs<uint32_t>(more + 4)};
      const bool value = column >= kv_width;
      if (value) column -= kv_width;
      LeaveToBuffer(*tile_, p_, layer, (first_group_ + group) * kGroupRows + kGroupPaths + g,
                    column / kHeadDim, column % kHeadDim, value, words);
    }
  }

  __device__ __forceinline__ void AttendToAll(int layer) {
    Leave(layer);
    rows_.Sync();  // a path's own new keys are there
    if (params_.teams.lanes == 1) {
#pragma unroll 1
      for (int head = 0; head < p_.heads; head += params_.teams.heads_at_once) {
        Attend<true>(layer, head);
      }
    } else {
#pragma unroll 1
      for (int head = 0; head < p_.heads; head += params_.teams.heads_at_once) {
        Attend<false>(layer, head);
      }
    }
    rows_.SyncOperands();
  }

  // operand = attention, of the heads from first_head on that are attended to at once. With kAlone,
  // a team has one lane.
  template <bool kAlone>
  __device__ __forceinline__ void Attend(int layer, int first_head) {
    const int warp = ThreadIndex() / kWarp;
    const int lanes = kAlone ? 1 : params_.teams.lanes;
    const int team = warp / lanes;
    const int own = warp - team * lanes;  // chunk of each round
    const HeadPass pass(params_, first_head);
    const int group = team % kGroups;
    const int head = pass.first + team / kGroups;
    const int kv_heads = pass.end_kv - pass.first_kv;
    const uint32_t first_stage = next_stage_;
    next_stage_ += order_->blocks * kv_heads;
    if (team / kGroups >= params_.teams.heads_at_once || head >= pass.end) return;
    const int kv = HeadPass::KeyHeadOf(params_, head);

    // Of the warps that read a key head's stage, one arrives for all who are missing.
    const int first_reader = max(pass.first, kv * params_.heads_of_kv);
    const int readers = (min(pass.end, (kv + 1) * params_.heads_of_kv) - first_reader) * kGroups;
    const int arrivals = head == first_reader && group == 0 ? kStageReaders - readers + 1 : 1;

    Queries<kHeadDim> q[1];
    q[0].LoadOperand(rows_.projected(group), head * kHeadDim, ThreadIndex() % kWarp);
    BufferReader<kHeadDim> buffer(*tile_, layer, p_.kv_heads, kv,
                                  (first_group_ + group) * kGroupPaths + ThreadIndex() % kWarp / 4,
                                  order_->chunks);
    const uint32_t stage = first_stage + kv - pass.first_kv;
    if constexpr (kAlone) {
      AttendAlone(stage, kv_heads, arrivals, q, buffer, group, head);
    } else {
      AttendInTurn(stage, kv_heads, arrivals, q, buffer, team, own, group, head);
    }
  }

  // The stage of the key head's first block, and how far apart those of the others are.
  __device__ __forceinline__ void AttendAlone(uint32_t stage, int stride, int arrivals,
                                              const Queries<kHeadDim> (&q)[1],
                                              BufferReader<kHeadDim>& buffer, int group, int head) {
    Merged merged(exchange());
    merged.Clear();
    RowState<kHeadDim> states[1];
    int left = order_->rows;
#pragma unroll 1
    for (int chunk = 0; chunk < order_->chunks; ++chunk) {
      buffer.Begin(chunk);
      states[0].Clear();
      int blocks = order_->chunk_blocks;
#pragma unroll 1
      while (blocks-- > 0 && left > 0) {
        AttendKeys(ring_.Wait(stage), 0, min(kBlockKeys, left), q, states);
        ring_.Release(stage, arrivals);
        stage += stride;
        left -= kBlockKeys;
      }
      buffer.Attend(chunk, q[0], states[0]);
      states[0].FinishChunk();
      merged.Merge(states[0]);
    }
    StoreAttention(group, head, states[0]);
  }

  // For all lanes of a team.
  __device__ __forceinline__ void AttendInTurn(uint32_t stage, int kv_heads, int arrivals,
                                               const Queries<kHeadDim> (&q)[1],
                                               BufferReader<kHeadDim>& buffer, int team, int own,
                                               int group, int head) {
    const int lanes = params_.teams.lanes;
    ChunkExchange<kHeadDim> merged(
        exchange() + team * lanes * kGroupRows * ExchangeStride(kHeadDim), lanes, own, 2 + team);
    RowState<kHeadDim> states[1];
#pragma unroll 1
    for (int first = 0; first < order_->chunks; first += lanes) {
      const int chunk = first + own;
      const bool has_chunk = chunk < order_->chunks;
      if (has_chunk) buffer.Begin(chunk);
      states[0].Clear();
#pragma unroll 1
      for (int block = 0; block < order_->chunk_blocks; ++block) {
        const int with_block = order_->LanesWith(lanes, first, block);
        if (own < with_block) {
          const uint32_t own_stage = stage + own * kv_heads;
          const int first_key = (chunk * order_->chunk_blocks + block) * kBlockKeys;
          AttendKeys(ring_.Wait(own_stage), 0, min(kBlockKeys, order_->rows - first_key), q,
                     states);
          ring_.Release(own_stage, arrivals);
        }
        stage += with_block * kv_heads;
      }
      if (has_chunk) {
        buffer.Attend(chunk, q[0], states[0]);
        states[0].FinishChunk();
      }
      merged.Merge(states[0], min(lanes, order_->chunks - first));
    }
    merged.Finish([&](int row, int column, const Floats4& attention) {
      rows_.StoreOperand(group * kGroupRows + row, head * kHeadDim + column, attention);
    });
  }

  __device__ __forceinline__ float* exchange() const {
    return reinterpret_cast<float*>(Shared() + params_.shared.exchange);
  }

  // Of a state that all chunks were merged to.
  __device__ __forceinline__ void StoreAttention(int group, int head,
                                                 const RowState<kHeadDim>& state) {
    const int lane = ThreadIndex() % kWarp;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float divisor = state.l[half] > 0 ? Reciprocal(state.l[half]) : 0.0f;
#pragma unroll
      for (int slice = 0; slice < kHeadDim / 32; ++slice) {
        Words4 words;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float(&o)[4] = state.o[slice * 4 + n];
          words.w[n] = PackBf16(o[2 * half] * divisor, o[2 * half + 1] * divisor);
        }
        rows_.StoreOperand(group * kGroupRows + half * 8 + lane / 4,
                           head * kHeadDim + slice * 32 + lane % 4 * 2, words);
      }
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
  RingReader ring_;
  const ProductRows<kGroups, kPanels, StageBytes(kHeadDim)> rows_;
  Tile* const tile_;
  PathTile* const paths_;
  const ContextOrder* const order_;
  const int first_group_;
  uint32_t next_stage_ = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_DECODE_BLOCK_CUH_
