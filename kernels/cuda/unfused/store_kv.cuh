// Stores K and V of a tile's rows from qkv, where the GEMM of the unfused form has left them.
#ifndef CHORALE_KERNELS_CUDA_UNFUSED_STORE_KV_CUH_
#define CHORALE_KERNELS_CUDA_UNFUSED_STORE_KV_CUH_

#include <cstdint>

#include "base/integer_math.h"
#include "kernels/cuda/layer/store_qkv.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/unfused/unfused_rows.h"

namespace chorale::kernels::cuda {

// Of a block that calls these functions.
inline constexpr int kStoreKvThreads = 256;

// The bits of a word with elements of V of keys `key` and key + 1 that belong to keys before
// Tile::encode_first: they stay as they are.
__device__ __forceinline__ uint32_t BitsThatStay(const Tile& tile, int key) {
  return key + 1 < tile.encode_first ? ~0u : key < tile.encode_first ? 0xffffu : 0u;
}
// Stores elements of V of several keys, of which `first_key` is the first: key_of_word(i) and the
// key after it are in word i. No other thread stores to these 16 bytes.
template <typename KeyOfWord>
__device__ __forceinline__ void StoreValues(const Tile& tile, int first_key, KeyOfWord key_of_word,
                                            Words4 words, uint16_t* to) {
  if (first_key < tile.encode_first) {
    const Words4 old = LoadCg<Words4>(to);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t stay = BitsThatStay(tile, key_of_word(i));
      words.w[i] = (old.w[i] & stay) | (words.w[i] & ~stay);
    }
  }
  StoreAs<Words4>(to, words);
}

// Stores 16 columns of V of the four keys that a lane of the attention kernels reads together
// (KeyBlockValueAt): 16 bytes for each two columns, 8 apart.
__device__ __forceinline__ void StoreNarrowValues(const Tile& tile, const StoreKvParams& p,
                                                  const uint16_t* rows, int row_stride,
                                                  int first_key, int d, uint16_t* key_block) {
  Words4 v[4][2];  // of each key, columns d to d + 7 and d + 8 to d + 15
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int key = first_key + k % 2 + k / 2 * 8;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      v[k][half] = {};
      if (key < tile.encode_rows) {  // else it pads the last key block
        v[k][half] = LoadCg<Words4>(rows + key * row_stride + d + 8 * half);
      }
    }
  }
#pragma unroll
  for (int column = 0; column < 8; ++column) {
    Words4 words;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t of_key[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint32_t pair = v[k][half].w[column / 2];
        of_key[k] = column % 2 == 0 ? pair & 0xffffu : pair >> 16;
      }
      words.w[2 * half] = of_key[0] | of_key[1] << 16;
      words.w[2 * half + 1] = of_key[2] | of_key[3] << 16;
    }
    const auto key_of_word = [first_key](int word) { return first_key + word % 2 * 8; };
    StoreValues(tile, first_key, key_of_word, words,
                key_block + KeyBlockValueAt(first_key, d + column, p.shape.head_dim));
  }
}

// Stores K and V of a tile's rows to a context whose heads are swizzled (IsSwizzledHead). All loads
// of a thread are in flight together: 8 columns of K of some rows, and pairs of columns of V of 8
// keys, of which neighbouring threads store neighbours.
template <int kHeadDim>
__device__ __forceinline__ void StoreSwizzledHead(const Tile& tile, const uint16_t* keys,
                                                  const uint16_t* values, int row_stride,
                                                  uint16_t* key_block) {
  static_assert(IsSwizzledHead(kHeadDim) && kTileRows * kHeadDim / 8 % kStoreKvThreads == 0);
  constexpr int kPieces = kTileRows * kHeadDim / 8 / kStoreKvThreads;
  Words4 k[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int at = (i * kStoreKvThreads + ThreadIndex()) * 8;
    k[i] = {};
    if (at / kHeadDim < tile.encode_rows) {  // else it pads the last key block
      k[i] = LoadCg<Words4>(keys + at / kHeadDim * row_stride + at % kHeadDim);
    }
  }
  constexpr int kAllPairs = kTileRows / 8 * kHeadDim / 2;  // of columns
  constexpr int kPairs = static_cast<int>(CeilDiv(kAllPairs, kStoreKvThreads));
  const auto has_pair = [](int at) { return kAllPairs % kStoreKvThreads == 0 || at < kAllPairs; };
  const auto first_key = [](int at) { return (at % 2 + at / kHeadDim * 2) * 8; };
  const auto column = [](int at) { return at % kHeadDim / 2 * 2; };
  uint32_t v[kPairs][8] = {};  // of each key
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int at = i * kStoreKvThreads + ThreadIndex();
#pragma unroll
    for (int of_eight = 0; of_eight < 8; ++of_eight) {
      const int key = first_key(at) + of_eight;
      if (has_pair(at) && key < tile.encode_rows) {
        v[i][of_eight] = LoadCg<uint32_t>(values + key * row_stride + column(at));
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int at = (i * kStoreKvThreads + ThreadIndex()) * 8;
    if (at / kHeadDim < tile.encode_first) continue;
    StoreAs<Words4>(key_block + KeyBlockKeyAt(at / kHeadDim, at % kHeadDim, kHeadDim), k[i]);
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int at = i * kStoreKvThreads + ThreadIndex();
    if (!has_pair(at)) continue;
    Words4 first;
    Words4 second;
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const uint32_t a = v[i][2 * word];
      const uint32_t b = v[i][2 * word + 1];
      first.w[word] = (a & 0xffffu) | b << 16;
      second.w[word] = a >> 16 | (b & 0xffff0000u);
    }
    const auto key_of_word = [key = first_key(at)](int word) { return key + 2 * word; };
    StoreValues(tile, first_key(at), key_of_word, first,
                key_block + KeyBlockValueAt(first_key(at), column(at), kHeadDim));
    StoreValues(tile, first_key(at), key_of_word, second,
                key_block + KeyBlockValueAt(first_key(at), column(at) + 1, kHeadDim));
  }
}

// The same of heads of 16.
__device__ __forceinline__ void StoreNarrowHead(const Tile& tile, const StoreKvParams& p,
                                                const uint16_t* keys, const uint16_t* values,
                                                int row_stride, uint16_t* key_block) {
  const int pieces = p.shape.head_dim / 8;  // of a row's K
#pragma unroll 1
  for (int i = ThreadIndex(); i < kTileRows * pieces; i += kStoreKvThreads) {
    const int row = i / pieces;
    if (row < tile.encode_first) continue;
    const int d = i % pieces * 8;
    Words4 k = {};
    if (row < tile.encode_rows) k = LoadCg<Words4>(keys + row * row_stride + d);
    StoreAs<Words4>(key_block + KeyBlockKeyAt(row, d, p.shape.head_dim), k);
  }
  const int columns = p.shape.head_dim / 16;
#pragma unroll 1
  for (int i = ThreadIndex(); i < kKeyBlockKeys / 4 * columns; i += kStoreKvThreads) {
    const int quad = i % (kKeyBlockKeys / 4);  // neighbouring threads store neighbouring lanes
    const int first_key = quad / 4 * 16 + quad % 4 * 2;
    StoreNarrowValues(tile, p, values, row_stride, first_key, i / (kKeyBlockKeys / 4) * 16,
                      key_block);
  }
}

// K and V of buffer tokens.
__device__ __forceinline__ void StoreTokens(const Tile& tile, const StoreKvParams& p,
                                            const uint16_t* keys, const uint16_t* values,
                                            int row_stride, int kv_head) {
  const int pieces = p.shape.head_dim / 8;
#pragma unroll 1
  for (int i = ThreadIndex(); i < tile.groups * kGroupRows * pieces; i += kStoreKvThreads) {
    const int row = i / pieces;
    const int d = i % pieces * 8;
    StoreKvToBuffer(tile, p.shape, p.kv_layer, row, kv_head, d, KvPart::kKey,
                    LoadCg<Words4>(keys + row * row_stride + d));
    StoreKvToBuffer(tile, p.shape, p.kv_layer, row, kv_head, d, KvPart::kValue,
                    LoadCg<Words4>(values + row * row_stride + d));
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_UNFUSED_STORE_KV_CUH_
