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
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/smem_descriptor.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace chorale::kernels::cuda {

inline constexpr int kWarpgroupThreads = kWarpgroupWarps * kWarpSize;

// In shared memory: whether any of a block's consumer warps needs the shifted sweep (EncodeRows).
struct SweepVote {
  static constexpr int kWarps = kEncodeBlockTiles * kWarpgroupWarps;

  Mbarrier all_voted;
  uint32_t needs[kWarps];

  // Called by one thread, before a barrier of the block.
  __device__ __forceinline__ void Init() { MbarrierInit(&all_voted, kWarps); }

  // Called by all lanes of each consumer warp, once.
  __device__ __forceinline__ void Vote(bool lane_needs) {
    const uint32_t lanes = __ballot_sync(kAllLanes, lane_needs);
    if (LaneIndex() != 0) return;
    needs[WarpIndex()] = lanes;
    MbarrierArrive(&all_voted);
  }

  // Waits for all votes. Called by any thread.
  __device__ __forceinline__ bool Result() {
    MbarrierWait(&all_voted, 0);
    uint32_t any = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) any |= needs[warp];
    return any != 0;
  }
};

// Sizes of a block of EncodeAttentionKernel.
template <int kHeadDim>
struct EncodeShape {
  using Ring = KeyRing<kHeadDim>;
  static constexpr int kTiles = Ring::kConsumers;  // a consumer warpgroup each
  // The consumers, and a warpgroup of which the first thread is the producer.
  static constexpr int kThreads = (kTiles + 1) * kWarpgroupThreads;

  // Registers of a thread: 128 for each when the kernel starts, of which the producer's warpgroup
  // leaves most to the consumers. Four consumer warpgroups would have 112, too few for the scores
  // of two key blocks.
  static constexpr int kProducerRegisters = 24;
  static constexpr int kConsumerRegisters = 160;

  // Shared memory: the ring, whose stages must be aligned to 1,024 bytes, each tile's queries, and
  // the vote.
  static constexpr int kQueryBytes = kTileRows * kHeadDim * 2;
  static constexpr int kQueriesAt = static_cast<int>(RoundUp(Ring::kBytes, 1024));
  static constexpr int kVoteAt = kQueriesAt + kTiles * kQueryBytes;
  static constexpr int kSharedBytes = kVoteAt + static_cast<int>(sizeof(SweepVote));
};

// What a block computes: one head of some tiles, of those of the launch.
struct EncodeTask {
  int head = 0;
  int first_tile = 0;
  int tiles = 0;  // 1 to kEncodeBlockTiles
};

// Called by all warps of a consumer warpgroup that has a tile. Scores are computed one key block
// ahead. During the softmax of a key block two products are in flight:
//
//   o += weights V       of the key block before
//   scores = q K         of the key block after
//
// so tensor cores also work while a warpgroup computes its softmax, whatever the others do.
//
// A sweep takes all keys of the context. In the first one, the plain sweep, a row's weights are
// 2^score, as if it had no large scores: without its maximum, a softmax takes little more than half
// of the instructions. If their sum l is then outside [2^-64, 2^64], the row needs another sweep,
// in which weights are 2^(score - m): the shifted one. Else nothing that counts is lost. Weights
// that are flushed to zero are below 2^-126 each, so those of 65,536 keys together are below 2^-46
// of l; and o is finite for values below 2^63. Scores come times log2(e): in units of the softmax,
// rows need the shifted sweep whose largest score is beyond about 40, or below -50.
//
// In the shifted sweep, m is raised only where a weight would exceed 2^kSlack, a few times in a
// row's life: for most key blocks lanes do not exchange maxima, and o is not scaled.
//
// In which sweep a row is computed, and whether its m is raised, depends on that row alone; where m
// is raised for some rows of a warp, l and o of the others are multiplied by 1.
//
// On an H100, 8,192 rows with 12 heads take 318 us, 720 us where all blocks take both sweeps, and
// took 362 us with the shifted sweep alone. A polynomial on other units for an eighth of the
// weights did not pay: 323 us.
template <int kHeadDim>
class EncodeRows {
  using Ring = KeyRing<kHeadDim>;
  using Shape = EncodeShape<kHeadDim>;
  static constexpr int kScores = kKeyBlockKeys / 2;  // of a lane, in two rows
  static constexpr int kColumns = kHeadDim / 2;      // likewise
  static constexpr float kMostPlainSum = 0x1p64f;
  static constexpr float kLeastPlainSum = 0x1p-64f;
  static constexpr float kSlack = 8;
  static constexpr int kQueryBarrier = 1;  // and one for each further warpgroup

 public:
  __device__ __forceinline__ EncodeRows(const EncodeAttentionParams& p, const EncodeTask& task,
                                        const Ring& ring)
      : p_(p),
        head_(task.head),
        keys_(ring),
        ring_(SmemAddress(ring.memory)),
        warpgroup_(WarpgroupIndex()),
        first_row_(int64_t{task.first_tile + warpgroup_} * kTileRows) {
    CopyQueries();
  }

  // Returns whether a row of this lane needs the shifted sweep.
  __device__ __forceinline__ bool PlainSweep(int context_rows) {
    TakeAllKeys<Sweep::kPlain>(context_rows);
    const int rows = LoadCg<Tile>(p_.tiles + first_row_ / kTileRows).encode_rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float l = SumOverLanes<4>(l_[half]);
      // Nobody reads rows that are not in use: they keep whatever they have, and cost no sweep.
      is_done_[half] = RowInTile(half) >= rows ||
                       (l >= kLeastPlainSum && l <= kMostPlainSum);  // not if l is NaN
      if (is_done_[half]) StoreRow(half, l);
    }
    return !is_done_[0] || !is_done_[1];
  }

  // For the rows that need it.
  __device__ __forceinline__ void ShiftedSweep(int context_rows) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      m_[half] = -INFINITY;
      l_[half] = 0;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) o_[i] = 0;
#pragma unroll
    for (int step = 0; step < kKeyBlockKeys / 16; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) weights_[step][word] = 0;
    }
    TakeAllKeys<Sweep::kShifted>(context_rows);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float l = SumOverLanes<4>(l_[half]);  // at least 1, the weight of the score that is m
      if (!is_done_[half]) StoreRow(half, l);
    }
  }

 private:
  enum class Sweep : bool { kPlain, kShifted };

  template <Sweep kSweep>
  __device__ __forceinline__ void TakeAllKeys(int context_rows) {
    int stage = keys_.Take();
    int previous = stage;  // none before the first: weights_ are zero, and any values do
    WgmmaFence();
    MultiplyKeys(KeyBlock(stage, 0), s_[0]);
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(s_[0]);
#pragma unroll 1
    for (int left = context_rows; left > 0; left -= Ring::kKeys) {
      AttendToKeyBlock<kSweep>(left, KeyBlock(previous, 1), KeyBlock(stage, 1), s_[0], s_[1]);
      if (previous != stage) keys_.Release(previous);
      // After the last stage there is none: the scores of some key block are computed in vain.
      const int next = left > Ring::kKeys ? keys_.Take() : stage;
      AttendToKeyBlock<kSweep>(left - kKeyBlockKeys, KeyBlock(stage, 0), KeyBlock(next, 0), s_[1],
                               s_[0]);
      previous = stage;
      stage = next;
    }
    HoldOperands(o_);
    HoldOperands(weights_);
    WgmmaFence();
    MultiplyValues(KeyBlock(previous, 1));
    WgmmaCommit();
    WgmmaWait<0>();
    HoldOperands(o_);
    keys_.Release(previous);
  }

  // The softmax of `scores`, of a key block with `valid` rows of the context: all 64 if there are
  // more, none if there are less than 1. weights_ are of the key block `before`, and afterwards of
  // this one; next_scores become those of the key block `after`.
  //
  // HoldOperands names registers of the products: before WgmmaFence those that were accessed since
  // the last products, after WgmmaWait those that will be. Weights are packed only then: while any
  // product is in flight, packing makes ptxas serialize them all (its warning C7513).
  template <Sweep kSweep>
  __device__ __forceinline__ void AttendToKeyBlock(int valid, uint32_t before, uint32_t after,
                                                   float (&scores)[kScores],
                                                   float (&next_scores)[kScores]) {
    HoldOperands(o_);
    HoldOperands(weights_);
    HoldOperands(next_scores);
    WgmmaFence();
    MultiplyValues(before);
    MultiplyKeys(after, next_scores);
    WgmmaCommit();
    if (valid < kKeyBlockKeys) Mask(scores, valid);
    const bool raised = kSweep == Sweep::kShifted && ShiftScores(scores);
    Exponentiate(scores);
    ComputeBeforeWait(l_[0] + l_[1]);
    WgmmaWait<0>();
    HoldOperands(o_);
    HoldOperands(scores);  // no operand of these products, but PackWeights must not begin earlier
    HoldOperands(next_scores);
    if (raised) Rescale();
    PackWeights(scores);
  }

  // To shared memory, in the order of the keys of a key block.
  __device__ __forceinline__ void CopyQueries() const {
    const uint16_t* q = p_.q + first_row_ * p_.q_stride + head_ * kHeadDim;
    auto* to = reinterpret_cast<uint16_t*>(DynamicSmem() + QueriesAt());
    constexpr int kPieces = kHeadDim / 8;  // of a row
#pragma unroll
    for (int i = 0; i < kTileRows * kPieces / kWarpgroupThreads; ++i) {
      const int piece = i * kWarpgroupThreads + ThreadIndex() % kWarpgroupThreads;
      const int row = piece / kPieces;
      const int d = piece % kPieces * 8;
      StoreAs<Words4>(to + KeyBlockKeyAt(row, d, kHeadDim),
                      LoadCg<Words4>(q + row * p_.q_stride + d));
    }
    FenceProxyAsync();
    NamedBarrierSync<kWarpgroupThreads>(kQueryBarrier + warpgroup_);
  }
  __device__ __forceinline__ int QueriesAt() const {
    return Shape::kQueriesAt + warpgroup_ * Shape::kQueryBytes;
  }

  // Address of the i-th key block of a stage.
  __device__ __forceinline__ uint32_t KeyBlock(int stage, int i) const {
    return ring_ + stage * Ring::kStageBytes + i * Ring::kKeyBlockBytes;
  }

  // Bytes from the first 16 elements of swizzled rows to the step-th, where slices are
  // `slice_bytes` apart.
  static constexpr int StepBytes(int step, int slice_bytes) {
    return step / 2 * slice_bytes + step % 2 * 32;
  }

  // scores = q K, of a key block.
  __device__ __forceinline__ void MultiplyKeys(uint32_t key_block, float (&scores)[kScores]) const {
    constexpr int kSliceBytes = 2 * kSwizzledRows;
    constexpr int kRowsStride = kHeadDim / kSwizzledRow * kSliceBytes;
    const uint64_t keys = MakeSwizzledDescriptor(key_block, kRowsStride);
    const uint64_t queries =
        MakeSwizzledDescriptor(SmemAddress(DynamicSmem()) + QueriesAt(), kRowsStride);
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const int offset = StepBytes(step, kSliceBytes) / 16;
      Wgmma(scores, queries + offset, keys + offset, step > 0);
    }
  }

  // o += weights V, of a key block.
  __device__ __forceinline__ void MultiplyValues(uint32_t key_block) {
    constexpr int kRowsStride = 2 * kSwizzledRows;
    constexpr int kSliceBytes = kHeadDim / 8 * kRowsStride;
    const uint64_t values = MakeSwizzledDescriptor(key_block + Ring::kValuesAt, kRowsStride);
#pragma unroll
    for (int step = 0; step < kKeyBlockKeys / 16; ++step) {
      Wgmma(o_, weights_[step], values + StepBytes(step, kSliceBytes) / 16, true);
    }
  }

  // Scores of keys from `valid` on become -inf.
  __device__ __forceinline__ static void Mask(float (&scores)[kScores], int valid) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      if (i / 4 * 8 + LaneIndex() % 4 * 2 + i % 2 >= valid) scores[i] = -INFINITY;
    }
  }

  // scores = 2^scores, added to l.
  __device__ __forceinline__ void Exponentiate(float (&scores)[kScores]) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      scores[i] = Exp2(scores[i]);
      l_[i % 4 / 2] += scores[i];
    }
  }

  // scores -= m, where m is raised if it must be. Returns whether Rescale must follow, in any lane
  // of the warp.
  __device__ __forceinline__ bool ShiftScores(float (&scores)[kScores]) {
    float largest[2] = {scores[0], scores[2]};
#pragma unroll
    for (int i = 0; i < kScores; i += 2) {
      float& row = largest[i % 4 / 2];
      row = fmaxf(row, fmaxf(scores[i], scores[i + 1]));
    }
    const bool raise = largest[0] > m_[0] + kSlack || largest[1] > m_[1] + kSlack;
    const bool raised = __ballot_sync(kAllLanes, raise) != 0;
    if (raised) RaiseMaxima(largest);
#pragma unroll
    for (int i = 0; i < kScores; ++i) scores[i] -= m_[i % 4 / 2];
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

  // A lane's scores of 16 keys, exponentiated, are its fragment of the weights.
  __device__ __forceinline__ void PackWeights(const float (&scores)[kScores]) {
#pragma unroll
    for (int step = 0; step < kKeyBlockKeys / 16; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const int at = 8 * step + 2 * word;
        weights_[step][word] = PackBf16(scores[at], scores[at + 1]);
      }
    }
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
      StoreAs<uint32_t>(to + 8 * n, PackBf16(o_[at] * divisor, o_[at + 1] * divisor));
    }
  }

  const EncodeAttentionParams& p_;
  const int head_;
  RingReader<kHeadDim> keys_;
  const uint32_t ring_;  // address
  const int warpgroup_;
  const int64_t first_row_;  // of the tile, of the rows of all tiles

  // Of the lane's rows g and g + 8.
  bool is_done_[2] = {};  // by the plain sweep
  float m_[2] = {};       // of the shifted sweep
  float l_[2] = {};       // this lane's share
  float scale_[2] = {};   // see RaiseMaxima
  float o_[kColumns] = {};
  float s_[2][kScores] = {};  // scores of a stage's two key blocks, then their exponentials
  uint32_t weights_[kKeyBlockKeys / 16][4] = {};
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ROWS_CUH_
