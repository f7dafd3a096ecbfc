// K and V of contexts and buffers in device memory, in fragment order (fragments.h), so that every
// kernel reads one contiguous stream and rearranges nothing.
//
// Offsets and sizes are in elements of bfloat16, stored as uint16_t.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_KV_CACHE_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_KV_CACHE_H_

#include <cstdint>

#include "base/integer_math.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::kernels::cuda {

// Head widths that the kernels are built for. A model's narrower heads are padded with zeros.
constexpr bool IsSupportedHeadDim(int64_t head_dim) {
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}
constexpr int64_t PaddedHeadDim(int64_t head_dim) { return head_dim < 16 ? 16 : head_dim; }

// Width of the slices in which a head's elements are distributed over lanes.
constexpr int HeadSlice(int head_dim) { return head_dim < 32 ? head_dim : 32; }

// ---- Context -------------------------------------------------------------------------------
//
// One layer of a context is [Hkv][key blocks]. A key block is the K of 64 keys, then their V. The
// last key block is padded with keys whose V is zero and whose score is never used.

inline constexpr int kKeyBlockKeys = 64;

constexpr int64_t ContextKeyBlocks(int64_t rows) { return CeilDiv(rows, kKeyBlockKeys); }
constexpr int64_t KeyBlockSize(int64_t head_dim) { return int64_t{2} * kKeyBlockKeys * head_dim; }
constexpr int64_t ContextLayerSize(int64_t rows, int64_t kv_heads, int64_t head_dim) {
  return kv_heads * ContextKeyBlocks(rows) * KeyBlockSize(head_dim);
}
// A key block of a context of all layers, one after the other. Those of a head are contiguous.
constexpr int64_t ContextKeyBlockAt(int64_t layer, int64_t kv_head, int64_t key_block, int64_t rows,
                                    int64_t kv_heads, int64_t head_dim) {
  return ((layer * kv_heads + kv_head) * ContextKeyBlocks(rows) + key_block) *
         KeyBlockSize(head_dim);
}

// The weights of a context's keys, as logarithms in units of log 2, like scores: one row of floats
// for each layer and K/V head. The floats of the padding of the last key block are never used.
constexpr int64_t ContextWeights(int64_t rows) { return RoundUp(rows, kKeyBlockKeys); }
constexpr int64_t ContextWeightsAt(int64_t layer, int64_t kv_head, int64_t rows, int64_t kv_heads) {
  return (layer * kv_heads + kv_head) * ContextWeights(rows);
}
// The logarithm of the weight of a key that does not count: a padding key among those of a context,
// whose K and V are zero. 2^x is 0 for it, and as a finite number it makes no NaN of any score.
inline constexpr float kNoKeyLogWeight = -1e30f;

// Heads of 32 elements and more are also read by wgmma (attention/encode_attention.h), as swizzled
// rows (SwizzledAt): of keys in K, of columns in V. Narrower ones are in the order of mma alone.
constexpr bool IsSwizzledHead(int64_t head_dim) { return head_dim >= kSwizzledRow; }

// Element d of the K of a key: [8 keys at a time][slice of the head][8][slice].
constexpr int KeyBlockKeyAt(int key, int d, int head_dim) {
  const int slice = HeadSlice(head_dim);
  return (key / 8 * (head_dim / slice) + d / slice) * 8 * slice +
         (IsSwizzledHead(head_dim) ? SwizzledAt(key, d) : key % 8 * slice + d % slice);
}

// Element d of its V: [16 keys at a time][16 columns at a time][lane][8 columns at a time][the
// lane's 4 keys]. Of a swizzled head: [32 keys at a time][8 columns at a time][8][32 keys].
constexpr int KeyBlockValueAt(int key, int d, int head_dim) {
  if (IsSwizzledHead(head_dim)) {
    return kKeyBlockKeys * head_dim +
           (key / kSwizzledRow * (head_dim / 8) + d / 8) * kSwizzledRows + SwizzledAt(d, key);
  }
  const int k = key % 16;
  const int lane = d % 8 * 4 + k % 8 / 2;
  return kKeyBlockKeys * head_dim + (key / 16 * (head_dim / 16) + d / 16) * 256 + lane * 8 +
         d % 16 / 8 * 4 + k / 8 * 2 + k % 2;
}
// Where column d + column of a V lies, with d a multiple of 8 and KeyBlockValueAt(key, d) = at.
constexpr int KeyBlockValueColumn(int at, int column, int head_dim) {
  return (at ^ (IsSwizzledHead(head_dim) ? column / 2 * 8 : 0)) + column * kSwizzledRow;
}

// ---- Buffer --------------------------------------------------------------------------------
//
// One layer of a tile's buffers is [Hkv][position][K, V][path][Dh], so that what the paths of a
// group need of one position is contiguous.

constexpr int64_t BufferPaths(int64_t paths) { return RoundUp(paths, kGroupPaths); }
constexpr int64_t BufferLayerSize(int64_t capacity, int64_t buffer_paths, int64_t kv_heads,
                                  int64_t head_dim) {
  return kv_heads * capacity * 2 * buffer_paths * head_dim;
}
// The K of a path at a position; its V follows buffer_paths * Dh elements later.
constexpr int64_t BufferKeyAt(int64_t kv_head, int64_t position, int64_t path, int64_t capacity,
                              int64_t buffer_paths, int64_t head_dim) {
  return ((kv_head * capacity + position) * 2 * buffer_paths + path) * head_dim;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_KV_CACHE_H_
