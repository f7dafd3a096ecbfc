// How the keys of a context, and of the paths' buffers, are divided into KV splits.
//
// Each split has a softmax state of its own, and states are combined in the order of the splits.
// Whether one block computes all splits or each split has a block therefore changes no bit of the
// result. The length of a split depends on the context alone: short, so that few rows keep many
// multiprocessors busy, but not so short that combining takes longer than attending.
//
// The positions of a path's own buffer are distributed over the splits round-robin, a few at a
// time, so that no split gets all of them. A split attends to its share of the buffer after its
// keys of the context.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_KV_SPLIT_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_KV_SPLIT_H_

#include <cstdint>

#include "base/integer_math.h"
#include "kernels/cuda/layout/kv_cache.h"

namespace chorale::kernels::cuda {

inline constexpr int kMinSplitKeyBlocks = 2;
inline constexpr int kMinSplits = 4;
inline constexpr int kMaxSplits = 32;

// Key blocks of each split of a context; the last splits may have fewer, or none.
constexpr int64_t SplitKeyBlocks(int64_t rows) {
  const int64_t key_blocks = CeilDiv(ContextKeyBlocks(rows), kMaxSplits);
  return key_blocks < kMinSplitKeyBlocks ? kMinSplitKeyBlocks : key_blocks;
}

// Splits of a context. The last splits of a short one have only their share of the buffer.
constexpr int64_t ContextSplits(int64_t rows) {
  const int64_t splits = CeilDiv(ContextKeyBlocks(rows), SplitKeyBlocks(rows));
  return splits < kMinSplits ? kMinSplits : splits;
}

// The most splits of any context of up to `rows` rows: a longer context can have fewer splits.
constexpr int64_t MaxContextSplits(int64_t rows) {
  const int64_t splits = CeilDiv(ContextKeyBlocks(rows), kMinSplitKeyBlocks);
  return splits < kMinSplits ? kMinSplits : splits < kMaxSplits ? splits : kMaxSplits;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_KV_SPLIT_H_
