// How the keys of a context, and of the paths' buffers, are divided into KV splits.
//
// Each split has a softmax state of its own. The states of the context are combined in the order of
// the splits, those of the buffers likewise, and then the two. Whether one block computes all
// splits or each split has a block therefore changes no bit of the result. The length of a split
// depends on the context alone: short, so that few rows keep many multiprocessors busy, but not so
// short that combining takes longer than attending. Beyond 16 splits, they become longer before
// their number grows.
//
// The last splits have the paths' own buffers, all others have keys of the context. Positions are
// distributed over the splits of the buffers round-robin, a chunk at a time. A split without
// positions changes no bit, so their number may depend on the room that the buffers have.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_KV_SPLIT_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_KV_SPLIT_H_

#include <algorithm>
#include <cstdint>

#include "base/integer_math.h"
#include "kernels/cuda/layout/kv_cache.h"

namespace chorale::kernels::cuda {

// A context has up to kMaxShortSplits splits of kShortSplitKeyBlocks. A longer one has as many,
// whose length grows to kLongSplitKeyBlocks, then up to kMaxContextSplits, and then longer ones.
inline constexpr int kShortSplitKeyBlocks = 4;
inline constexpr int kLongSplitKeyBlocks = 8;
inline constexpr int kMaxShortSplits = 16;
inline constexpr int kMaxContextSplits = 32;

// Key blocks of each split of a context, an even number; the last split may have fewer.
constexpr int64_t SplitKeyBlocks(int64_t rows) {
  const int64_t key_blocks = ContextKeyBlocks(rows);
  const int64_t up_to_long =
      std::min<int64_t>(CeilDiv(key_blocks, kMaxShortSplits), kLongSplitKeyBlocks);
  const int64_t least = std::max<int64_t>(up_to_long, kShortSplitKeyBlocks);
  return RoundUp(std::max(CeilDiv(key_blocks, kMaxContextSplits), least), 2);
}

// Splits of the keys of a context.
constexpr int64_t ContextSplits(int64_t rows) {
  return CeilDiv(ContextKeyBlocks(rows), SplitKeyBlocks(rows));
}

inline constexpr int kMaxBufferSplits = 4;
inline constexpr int kBufferChunk = 8;  // positions

// Splits of buffers with room for `capacity` positions.
constexpr int64_t BufferSplits(int64_t capacity) {
  const int64_t chunks = CeilDiv(capacity, kBufferChunk);
  return chunks < kMaxBufferSplits ? chunks : kMaxBufferSplits;
}

// Splits of a context of `rows` rows and such buffers.
constexpr int64_t KvSplits(int64_t rows, int64_t buffer_capacity) {
  return ContextSplits(rows) + BufferSplits(buffer_capacity);
}

// The most splits of any context of up to `rows` rows: a longer context can have fewer splits.
constexpr int64_t MaxContextSplits(int64_t rows) {
  const int64_t key_blocks = ContextKeyBlocks(rows);
  return std::max(std::min<int64_t>(CeilDiv(key_blocks, kShortSplitKeyBlocks), kMaxShortSplits),
                  std::min<int64_t>(CeilDiv(key_blocks, kLongSplitKeyBlocks), kMaxContextSplits));
}
constexpr int64_t MaxKvSplits(int64_t rows) { return MaxContextSplits(rows) + kMaxBufferSplits; }

// The rows of a context that has this number of splits, all of them full. REQUIRES: at most
// kMaxContextSplits.
constexpr int64_t RowsOfSplits(int64_t splits) {
  return splits * (splits > kMaxShortSplits ? kLongSplitKeyBlocks : kShortSplitKeyBlocks) *
         kKeyBlockKeys;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_KV_SPLIT_H_
