// The rows of one tile in EncodeAttentionKernel: a warpgroup of consumers.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ROWS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ROWS_CUH_

#include "base/integer_math.h"
#include "kernels/cuda/attention/encode_attention.h"
#include "kernels/cuda/attention/key_ring.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/smem_descriptor.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace chorale::kernels::cuda {

inline constexpr int kEncodeHeadDim = 64;
inline constexpr int kWarpgroupThreads = kWarpgroupWarps * kWarpSize;

// Where the queries of the products with keys are.
enum class QueriesIn { kRegisters, kSharedMemory };
// Whether warpgroups take turns at issuing products, so that the softmax of one overlaps with the
// products of another, rather than leaving that to chance.
enum class Turns { kNone, kTaken };

// kTiles: consumer warpgroups of a block. kKeys: keys of a stage of the ring.
template <int kBlockTiles, int kStageKeys, int kStages, QueriesIn kQueriesPlace,
          Turns kTurnsTaken = Turns::kNone, int kMultiprocessorBlocks = 1>
struct EncodeShape {
  static constexpr int kTiles = kBlockTiles;
  static constexpr int kKeys = kStageKeys;
  static constexpr QueriesIn kQueriesIn = kQueriesPlace;
  static constexpr Turns kTurns = kTurnsTaken;
  static constexpr int kBlocks = kMultiprocessorBlocks;
  // The consumers, and a warpgroup of which the first thread is the producer.
  static constexpr int kThreads = (kTiles + 1) * kWarpgroupThreads;

  // Registers of a thread when the kernel starts; of a producer; of a consumer, who gets the rest.
  static constexpr int kRegisters = 65536 / (kBlocks * kThreads) / 8 * 8;
  static constexpr int kProducerRegisters = 24;
  static constexpr int kFreeRegisters = kRegisters * (kTiles + 1) - kProducerRegisters;
  static constexpr int kConsumerRegisters =
      kFreeRegisters / kTiles > 240 ? 240 : kFreeRegisters / kTiles / 8 * 8;

  // Shared memory: the ring, whose stages must be aligned to 1,024 bytes, then each tile's queries.
  using Ring = KeyRing<kEncodeHeadDim, kKeys, kStages, kTiles>;
  static constexpr int kQueryBytes =
      kQueriesIn == QueriesIn::kSharedMemory ? kTileRows * kEncodeHeadDim * 2 : 0;
  static constexpr int kQueriesAt = static_cast<int>(RoundUp(Ring::kBytes, 1024));
  static constexpr int kSharedBytes = kQueriesAt + kTiles * kQueryBytes;
};

// Called by all warps of a consumer warpgroup. For each stage of keys and values:
//
//   s = q K            then, of the previous stage, o += weights V
//   softmax of s       meanwhile
//   weights = s        once that is done
//
// ptxas serializes products if weights are packed while others are in flight.
//
// The maximum m is raised only where weights would exceed 2^kSlack, a few times in a row's life; in
// most stages lanes do not exchange maxima, and o is not scaled. Whether m of a row is raised
// depends on that row alone; where it is for some rows of a warp, l and o of the others are
// multiplied by 1.
template <typename Shape>
class EncodeRows {
  using Ring = typename Shape::Ring;
  static constexpr int kKeys = Shape::kKeys;
  static constexpr int kScores = kKeys / 2;            // of a lane
  static constexpr int kColumns = kEncodeHeadDim / 2;  // of a lane, in two rows
  static constexpr int kQuerySteps = kEncodeHeadDim / 16;
  static constexpr float kSlack = 8;
  static constexpr int kQueryBarrier = 1;  // and one for each further warpgroup
  static constexpr int kTurnBarrier = kQueryBarrier + Shape::kTiles;

 public:
  __device__ __forceinline__ EncodeRows(const EncodeAttentionParams& p, const Ring& ring)
      : p_(p), keys_(ring), ring_(SmemAddress(ring.memory)), warpgroup_(WarpgroupIndex()) {}

  __device__ __forceinline__ void Attend(int context_rows) {
    LoadQueries();
    if (Shape::kTurns == Turns::kTaken && warpgroup_ == Shape::kTiles - 1) PassTurn();
    int stage = keys_.Take();
    WgmmaFence();
    MultiplyKeys(stage);
    WgmmaWait<0>();
    HoldOperands(s_);
    if (context_rows < kKeys) Mask(context_rows);
    Exponentiate();
    PackWeights();
#pragma unroll 1
    for (int left = context_rows - kKeys; left > 0; left -= kKeys) {
      const int next = keys_.Take();
      TakeTurn();
      HoldOperands(o_);
      HoldOperands(weights_);
      WgmmaFence();
      MultiplyKeys(next);
      MultiplyValues(stage);
      PassTurn();
      WgmmaWait<1>();
      HoldOperands(s_);
      if (left < kKeys) Mask(left);
      const bool raised = Exponentiate();
      WgmmaWait<0>();
      HoldOperands(o_);
      HoldOperands(s_);  // weights_ are overwritten from here on
      keys_.Release(stage);
      if (raised) Rescale();
      PackWeights();
      stage = next;
    }
    HoldOperands(o_);
    HoldOperands(weights_);
    WgmmaFence();
    MultiplyValues(stage);
    WgmmaWait<0>();
    HoldOperands(o_);
    keys_.Release(stage);
    Store();
  }

 private:
  // Index of this warpgroup's tile, which may not exist.
  __device__ __forceinline__ int tile() const {
    return static_cast<int>(blockIdx.x) * Shape::kTiles + warpgroup_;
  }
  // The lane's row g, of the rows of all tiles, in the last tile rather than in none.
  __device__ __forceinline__ int64_t LaneRow() const {
    return int64_t{min(tile(), p_.tile_count - 1)} * kTileRows +
           WarpIndex() % kWarpgroupWarps * kGroupRows + LaneIndex() / 4;
  }

  __device__ __forceinline__ void LoadQueries() {
    if constexpr (Shape::kQueriesIn == QueriesIn::kRegisters) {
      const uint16_t* q = p_.q + LaneRow() * p_.q_stride +
                          static_cast<int>(blockIdx.y) * kEncodeHeadDim + LaneIndex() % 4 * 2;
#pragma unroll
      for (int step = 0; step < kQuerySteps; ++step) {
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          q_[step][word] =
              LoadCg<uint32_t>(q + word % 2 * 8 * p_.q_stride + 16 * step + word / 2 * 8);
        }
      }
      HoldOperands(q_);
    } else {
      CopyQueries();
    }
  }

  // In the order of the keys of a key block.
  __device__ __forceinline__ void CopyQueries() const {
    const int64_t first_row = int64_t{min(tile(), p_.tile_count - 1)} * kTileRows;
    const uint16_t* q =
        p_.q + first_row * p_.q_stride + static_cast<int>(blockIdx.y) * kEncodeHeadDim;
    auto* to = reinterpret_cast<uint16_t*>(DynamicSmem() + QueriesAt());
    constexpr int kPieces = kEncodeHeadDim / 8;  // of a row
#pragma unroll
    for (int i = 0; i < kTileRows * kPieces / kWarpgroupThreads; ++i) {
      const int piece = i * kWarpgroupThreads + ThreadIndex() % kWarpgroupThreads;
      const int row = piece / kPieces;
      const int d = piece % kPieces * 8;
      StoreAs<Words4>(to + KeyBlockKeyAt(row, d, kEncodeHeadDim),
                      LoadCg<Words4>(q + row * p_.q_stride + d));
    }
    FenceProxyAsync();
    NamedBarrierSync<kWarpgroupThreads>(kQueryBarrier + warpgroup_);
  }
  __device__ __forceinline__ int QueriesAt() const {
    return Shape::kQueriesAt + warpgroup_ * Shape::kQueryBytes;
  }

  // Two warpgroups meet at each barrier: the one whose turn begins, and the one whose turn ended.
  __device__ __forceinline__ void TakeTurn() const {
    if constexpr (Shape::kTurns == Turns::kTaken) {
      NamedBarrierSync<2 * kWarpgroupThreads>(kTurnBarrier + warpgroup_);
    }
  }
  __device__ __forceinline__ void PassTurn() const {
    if constexpr (Shape::kTurns == Turns::kTaken) {
      const int next = warpgroup_ + 1 == Shape::kTiles ? 0 : warpgroup_ + 1;
      NamedBarrierArrive<2 * kWarpgroupThreads>(kTurnBarrier + next);
    }
  }

  // Bytes from the first 16 elements of swizzled rows to the step-th, where slices are
  // `slice_bytes` apart.
  static constexpr int StepBytes(int step, int slice_bytes) {
    return step / 2 * slice_bytes + step % 2 * 32;
  }

  // s = q K, of a stage's keys.
  __device__ __forceinline__ void MultiplyKeys(int stage) {
    constexpr int kSliceBytes = 2 * kSwizzledRows;
    constexpr int kRowsStride = kEncodeHeadDim / kSwizzledRow * kSliceBytes;
    const uint64_t keys = MakeSwizzledDescriptor(ring_ + stage * Ring::kStageBytes, kRowsStride);
#pragma unroll
    for (int step = 0; step < kQuerySteps; ++step) {
      const int offset = StepBytes(step, kSliceBytes) / 16;
      if constexpr (Shape::kQueriesIn == QueriesIn::kRegisters) {
        Wgmma(s_, q_[step], keys + offset, step > 0);
      } else {
        const uint64_t queries =
            MakeSwizzledDescriptor(SmemAddress(DynamicSmem()) + QueriesAt(), kRowsStride);
        Wgmma(s_, queries + offset, keys + offset, step > 0);
      }
    }
    WgmmaCommit();
  }

  // o += weights V, of a stage's values.
  __device__ __forceinline__ void MultiplyValues(int stage) {
    constexpr int kRowsStride = 2 * kSwizzledRows;
    constexpr int kSliceBytes = kEncodeHeadDim / 8 * kRowsStride;
    const uint64_t values =
        MakeSwizzledDescriptor(ring_ + stage * Ring::kStageBytes + Ring::kValuesAt, kRowsStride);
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      Wgmma(o_, weights_[step], values + StepBytes(step, kSliceBytes) / 16, true);
    }
    WgmmaCommit();
  }

  // Scores of keys from `valid` on become -inf.
  __device__ __forceinline__ void Mask(int valid) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      if (i / 4 * 8 + LaneIndex() % 4 * 2 + i % 2 >= valid) s_[i] = -INFINITY;
    }
  }

  // s = 2^(s - m), added to l. Returns whether Rescale must follow, in any lane of the warp.
  __device__ __forceinline__ bool Exponentiate() {
    float largest[2] = {s_[0], s_[2]};
#pragma unroll
    for (int i = 0; i < kScores; i += 2) {
      float& row = largest[i % 4 / 2];
      row = fmaxf(row, fmaxf(s_[i], s_[i + 1]));
    }
    const bool raise = largest[0] > m_[0] + kSlack || largest[1] > m_[1] + kSlack;
    const bool raised = __ballot_sync(kAllLanes, raise) != 0;
    if (raised) RaiseMaxima(largest);
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      s_[i] = Exp2(s_[i] - m_[i % 4 / 2]);
      l_[i % 4 / 2] += s_[i];
    }
    return raised;
  }

  // Raises m where `largest`, of this lane's scores, makes it too small; l and scale_ follow.
  __device__ __forceinline__ void RaiseMaxima(const float (&largest)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float of_row = MaxOverLanes<4>(largest[half]);
      scale_[half] = 1;
      if (of_row > m_[half] + kSlack) {
        scale_[half] = Exp2(m_[half] - of_row);
        m_[half] = of_row;
      }
      l_[half] *= scale_[half];
    }
  }

  __device__ __forceinline__ void Rescale() {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) o_[i] *= scale_[i % 4 / 2];
  }

  // A lane's scores of 16 keys are its fragment of the weights.
  __device__ __forceinline__ void PackWeights() {
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        weights_[step][word] = PackBf16(s_[8 * step + 2 * word], s_[8 * step + 2 * word + 1]);
      }
    }
  }

  __device__ __forceinline__ void Store() const {
    if (tile() >= p_.tile_count) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // l is at least 1, the weight of the score to which m was raised.
      const float divisor = Rcp(SumOverLanes<4>(l_[half]));
      uint16_t* to =
          p_.attended +
          ((LaneRow() + 8 * half) * p_.heads + static_cast<int>(blockIdx.y)) * kEncodeHeadDim +
          LaneIndex() % 4 * 2;
#pragma unroll
      for (int n = 0; n < kEncodeHeadDim / 8; ++n) {
        const int at = 4 * n + 2 * half;
        StoreAs<uint32_t>(to + 8 * n, PackBf16(o_[at] * divisor, o_[at + 1] * divisor));
      }
    }
  }

  const EncodeAttentionParams& p_;
  RingReader<Ring> keys_;
  const uint32_t ring_;  // address
  const int warpgroup_;

  // Of the lane's rows g and g + 8.
  float m_[2] = {-INFINITY, -INFINITY};
  float l_[2] = {};      // this lane's share
  float scale_[2] = {};  // see RaiseMaxima
  float o_[kColumns] = {};
  float s_[kScores] = {};  // scores, then weights
  uint32_t weights_[kKeys / 16][4] = {};
  uint32_t q_[kQuerySteps][4] = {};
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ROWS_CUH_
