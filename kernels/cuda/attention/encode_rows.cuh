// The rows of one tile in EncodeAttentionKernel: a warpgroup of consumers.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ROWS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ROWS_CUH_

#include "base/integer_math.h"
#include "kernels/cuda/attention/encode_attention.h"
#include "kernels/cuda/attention/key_log_weights.cuh"
#include "kernels/cuda/attention/key_ring.cuh"
#include "kernels/cuda/attention/shifted_softmax.cuh"
#include "kernels/cuda/attention/sweep_vote.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/attention/wgmma_sweep.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

template <int kHeadDim>
using EncodeRing = KeyRing<kHeadDim, /*kStageKeyBlocks=*/2, /*kStageCount=*/4>;

// Sizes of a block of EncodeAttentionKernel.
template <int kHeadDim>
struct EncodeShape {
  using Ring = EncodeRing<kHeadDim>;
  using Vote = SweepVote<kEncodeBlockTiles * kWarpgroupWarps>;
  static constexpr int kTiles = kEncodeBlockTiles;  // a consumer warpgroup each
  // The consumers, and a warpgroup of which the first thread is the producer.
  static constexpr int kThreads = (kTiles + 1) * kWarpgroupThreads;

  // Registers of a thread: 128 for each when the kernel starts, of which the producer's warpgroup
  // leaves most to the consumers. Four consumer warpgroups would have 112, too few for the scores
  // of two key blocks.
  static constexpr int kProducerRegisters = 24;
  static constexpr int kConsumerRegisters = 160;

  // Shared memory: the ring, whose stages must be aligned to 1,024 bytes, each tile's queries, and
  // the vote.
  static constexpr int kQueryBytes = WgmmaKeys<kHeadDim>::kQueryBytes;
  static constexpr int kQueriesAt = static_cast<int>(RoundUp(Ring::kBytes, 1024));
  static constexpr int kVoteAt = kQueriesAt + kTiles * kQueryBytes;
  static constexpr int kSharedBytes = kVoteAt + static_cast<int>(sizeof(Vote));
};

// What a block computes: one head of some tiles, of those of the launch.
struct EncodeTask {
  int head = 0;
  int first_tile = 0;
  int tiles = 0;  // 1 to kEncodeBlockTiles

  __device__ __forceinline__ int KvHead(const ModelShape& shape) const {
    return head / (shape.heads / shape.kv_heads);
  }
};

// Called by all warps of a consumer warpgroup that has a tile. Rows take the plain sweep over all
// keys of the context, and those that need it the shifted one (WgmmaSweep).
//
// In which sweep a row is computed depends on that row alone.
//
// On an H100, 8,192 rows with 12 heads took 318 us, 720 us where all blocks take both sweeps, and
// 362 us with the shifted sweep alone. A polynomial on other units for an eighth of the weights did
// not pay: 323 us.
//
// Weights: KeyLogWeights or NoLogWeights.
template <int kHeadDim, typename Weights>
class EncodeRows {
  using Ring = EncodeRing<kHeadDim>;
  using Shape = EncodeShape<kHeadDim>;
  using Keys = WgmmaKeys<kHeadDim>;
  static constexpr int kQueryBarrier = 1;  // and one for each further warpgroup

 public:
  // `log_weights`: of all keys.
  __device__ __forceinline__ EncodeRows(const EncodeAttentionParams& p, const EncodeTask& task,
                                        const Weights& log_weights, const Ring& ring)
      : p_(p),
        head_(task.head),
        log_weights_(log_weights),
        keys_(ring),
        warpgroup_(WarpgroupIndex()),
        queries_(SmemAddress(DynamicSmem()) + QueriesAt()),
        first_row_(int64_t{task.first_tile + warpgroup_} * kTileRows) {
    CopyQueries();
  }

  // Returns whether a row of this lane needs the shifted sweep.
  __device__ __forceinline__ bool PlainSweep(int context_rows) {
    sweep_.template Take<Sweep::kPlain>(queries_, context_rows, log_weights_, keys_);
    const int rows = LoadCg<Tile>(p_.tiles + first_row_ / kTileRows).encode_rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float l = SumOverLanes<4>(sweep_.softmax.l[half]);
      // Nobody reads rows that are not in use: they keep whatever they have, and cost no sweep.
      is_done_[half] = RowInTile(half) >= rows || IsPlainSum(l);
      if (is_done_[half]) StoreRow(half, l);
    }
    return !is_done_[0] || !is_done_[1];
  }

  // For the rows that need it.
  __device__ __forceinline__ void ShiftedSweep(int context_rows) {
    sweep_.softmax.Clear(is_done_);
    sweep_.template Take<Sweep::kShifted>(queries_, context_rows, log_weights_, keys_);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // At least 1, the weight of the score that is m.
      const float l = SumOverLanes<4>(sweep_.softmax.l[half]);
      if (!is_done_[half]) StoreRow(half, l);
    }
  }

 private:
  __device__ __forceinline__ void CopyQueries() const {
    Keys::CopyQueries(p_.q + first_row_ * p_.q_stride + head_ * kHeadDim, p_.q_stride,
                      reinterpret_cast<uint16_t*>(DynamicSmem() + QueriesAt()));
    FenceProxyAsync();
    NamedBarrierSync<kWarpgroupThreads>(kQueryBarrier + warpgroup_);
  }
  __device__ __forceinline__ int QueriesAt() const {
    return Shape::kQueriesAt + warpgroup_ * Shape::kQueryBytes;
  }

  // Row g or g + 8 of the lane's, in its tile.
  __device__ __forceinline__ static int RowInTile(int half) {
    return WarpIndex() % kWarpgroupWarps * kGroupRows + LaneIndex() / 4 + 8 * half;
  }

  __device__ __forceinline__ void StoreRow(int half, float l) const {
    const float divisor = Rcp(l);
    uint16_t* to = p_.attended +
                   ((first_row_ + RowInTile(half)) * p_.shape.heads + head_) * kHeadDim +
                   LaneIndex() % 4 * 2;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      const int at = 4 * n + 2 * half;
      StoreAs<uint32_t>(to + 8 * n, PackBf16(sweep_.o[at] * divisor, sweep_.o[at + 1] * divisor));
    }
  }

  const EncodeAttentionParams& p_;
  const int head_;
  Weights log_weights_;
  RingReader<Ring> keys_;
  const int warpgroup_;
  const uint32_t queries_;   // address
  const int64_t first_row_;  // of the tile, of the rows of all tiles

  // Of the lane's rows g and g + 8.
  bool is_done_[2] = {};  // by the plain sweep

  WgmmaSweep<kHeadDim> sweep_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ROWS_CUH_
