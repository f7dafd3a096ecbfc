#include <cassert>
#include <cfloat>
#include <cmath>
#include <initializer_list>

#include "base/arena_layout.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/memory_set/key_elements.cuh"
#include "kernels/cuda/memory_set/key_importance.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/ops/key_attention.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kParts = 4;   // of the queries of a chunk: a thread takes one part for one key
constexpr int kChunk = 64;  // queries in shared memory
constexpr int kThreads = kParts * kKeyBlockKeys;

// A block's shared memory.
struct SmemLayout {
  SmemArray<float> q;          // [kChunk, Dh]
  SmemArray<float> o;          // [kChunk, Dh]
  SmemArray<float> lse;        // [kChunk]; inf of a query that adds nothing
  SmemArray<int32_t> hidden;   // [kChunk]
  SmemArray<double> partials;  // [kParts, 64]
  int32_t bytes = 0;
};

constexpr SmemLayout SmemLayoutOf(int head_dim) {
  SmemArenaLayout arena(16);
  SmemLayout layout;
  layout.q = arena.Take<float>(kChunk * head_dim);
  layout.o = arena.Take<float>(kChunk * head_dim);
  layout.lse = arena.Take<float>(kChunk);
  layout.hidden = arena.Take<int32_t>(kChunk);
  layout.partials = arena.Take<double>(kParts * kKeyBlockKeys);
  layout.bytes = arena.bytes();
  return layout;
}

// Queries are numbered by row, and then by the query heads that read a K/V head.
struct QueryIndex {
  int row;
  int head;

  __device__ __forceinline__ QueryIndex(const ModelShape& shape, int kv_head, int query)
      : row(query / (shape.heads / shape.kv_heads)),
        head(kv_head * (shape.heads / shape.kv_heads) + query % (shape.heads / shape.kv_heads)) {}
};

// Copies queries [first, first + kChunk) to shared memory, in float32. Those beyond the last one
// add nothing.
template <int kHeadDim>
__device__ __forceinline__ void LoadChunk(const KeyImportanceParams& p, int kv_head, int first,
                                          int queries, char* shared) {
  constexpr SmemLayout kSmem = SmemLayoutOf(kHeadDim);
  constexpr int kPieces = kHeadDim / 8;
  for (int i = ThreadIndex(); i < kChunk * kPieces; i += kThreads) {
    const int query = i / kPieces;
    const int d = i % kPieces * 8;
    Words4 q = {};
    Floats4 o[2] = {};
    if (first + query < queries) {
      const QueryIndex index(p.shape, kv_head, first + query);
      const int64_t at = (int64_t{index.row} * p.shape.heads + index.head) * kHeadDim + d;
      q = LoadCg<Words4>(p.q + index.row * p.q_stride + index.head * kHeadDim + d);
      o[0] = LoadCg<Floats4>(p.out + at);
      o[1] = LoadCg<Floats4>(p.out + at + 4);
    }
    float* const to_q = kSmem.q.At(shared) + query * kHeadDim + d;
    float* const to_o = kSmem.o.At(shared) + query * kHeadDim + d;
    StoreAs<Floats4>(
        to_q, {FirstBf16(q.w[0]), SecondBf16(q.w[0]), FirstBf16(q.w[1]), SecondBf16(q.w[1])});
    StoreAs<Floats4>(
        to_q + 4, {FirstBf16(q.w[2]), SecondBf16(q.w[2]), FirstBf16(q.w[3]), SecondBf16(q.w[3])});
    StoreAs<Floats4>(to_o, o[0]);
    StoreAs<Floats4>(to_o + 4, o[1]);
  }
  for (int query = ThreadIndex(); query < kChunk; query += kThreads) {
    float lse = INFINITY;
    int32_t hidden = -1;
    if (first + query < queries) {
      const QueryIndex index(p.shape, kv_head, first + query);
      lse = LoadCg<float>(p.lse + index.row * p.shape.heads + index.head);
      if (lse == -INFINITY) lse = INFINITY;
      hidden = LoadCg<int32_t>(p.hidden_places + index.row * p.shape.kv_heads + kv_head);
    }
    kSmem.lse.At(shared)[query] = lse;
    kSmem.hidden.At(shared)[query] = hidden;
  }
}

// A key and its value, as pairs of bf16.
template <int kHeadDim>
struct KeyAndValue {
  uint32_t k[kHeadDim / 2];
  uint32_t v[kHeadDim / 2];

  __device__ __forceinline__ void Load(const uint16_t* head, int place) {
#pragma unroll
    for (int d = 0; d < kHeadDim; d += 8) {
      const auto words = LoadCg<Words4>(head + KeyElementAt(place, d, kHeadDim));
#pragma unroll
      for (int i = 0; i < 4; ++i) k[d / 2 + i] = words.w[i];
    }
#pragma unroll
    for (int d = 0; d < kHeadDim; d += 2) {
      v[d / 2] = PackBf16(LoadElement(head, KeyElementAt(place, kHeadDim + d, kHeadDim)),
                          LoadElement(head, KeyElementAt(place, kHeadDim + d + 1, kHeadDim)));
    }
  }

  // q . k, and |o - v|^2. Sums have four parts.
  __device__ __forceinline__ void Compare(const float* q, const float* o, float& score,
                                          float& square) const {
    float scores[4] = {};
    float squares[4] = {};
#pragma unroll
    for (int d = 0; d < kHeadDim; d += 4) {
      const auto of_q = LoadAs<Floats4>(q + d);
      const auto of_o = LoadAs<Floats4>(o + d);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t key = k[(d + i) / 2];
        const uint32_t value = v[(d + i) / 2];
        const float difference = of_o.v[i] - (i % 2 == 0 ? FirstBf16(value) : SecondBf16(value));
        scores[i] = fmaf(of_q.v[i], i % 2 == 0 ? FirstBf16(key) : SecondBf16(key), scores[i]);
        squares[i] = fmaf(difference, difference, squares[i]);
      }
    }
    score = (scores[0] + scores[1]) + (scores[2] + scores[3]);
    square = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  }
};

// Grid: x key blocks, y K/V heads. A thread takes one key of the key block, in registers, and a
// quarter of the queries of each chunk, which are in shared memory. It sums up its queries of a
// chunk in float32, and the chunks in float64; the sums of the four threads of a key are added in
// their order.
//
// -inf: the lse of a query without keys becomes inf, so its p is 0.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    KeyImportanceKernel(const __grid_constant__ KeyImportanceParams p) {
  GridDepLaunch();
  GridDepWait();
  char* const shared = DynamicSmem();
  constexpr SmemLayout kSmem = SmemLayoutOf(kHeadDim);
  const int kv_head = blockIdx.y;
  const int places = p.keys.places();
  const int key = ThreadIndex() % kKeyBlockKeys;
  const int part = ThreadIndex() / kKeyBlockKeys;
  const int place = (p.first_key_block + static_cast<int>(blockIdx.x)) * kKeyBlockKeys + key;
  const float log_weight =
      LoadCg<float>(p.keys.log_weights + kv_head * ContextWeights(places) + place);
  KeyAndValue<kHeadDim> own;
  own.Load(p.keys.kv + ContextKeyBlockAt(/*layer=*/0, kv_head, /*key_block=*/0, places,
                                         p.shape.kv_heads, kHeadDim),
           place);
  const int queries = p.rows * (p.shape.heads / p.shape.kv_heads);
  double sum = 0;
#pragma unroll 1
  for (int first = 0; first < queries; first += kChunk) {
    __syncthreads();  // all threads have finished the previous chunk
    LoadChunk<kHeadDim>(p, kv_head, first, queries, shared);
    __syncthreads();
    float of_chunk = 0;
#pragma unroll 1
    for (int query = part * (kChunk / kParts); query < (part + 1) * (kChunk / kParts); ++query) {
      float score, square;
      own.Compare(kSmem.q.At(shared) + query * kHeadDim, kSmem.o.At(shared) + query * kHeadDim,
                  score, square);
      // Above 0 by rounding only, or for the hidden key.
      const float log_p = fminf((score + log_weight) - kSmem.lse.At(shared)[query], 0.0f);
      const float attention = Exp2(log_p);
      const float odds = attention / fmaxf(1.0f - attention, kLeastRest);
      const float effect = odds * fminf(square, FLT_MAX) * odds;
      if (kSmem.hidden.At(shared)[query] != place) of_chunk += effect;
    }
    sum += of_chunk;
  }
  double* const partials = kSmem.partials.At(shared);
  partials[part * kKeyBlockKeys + key] = sum;
  __syncthreads();
  if (part != 0 || place >= places) return;
  for (int i = 1; i < kParts; ++i) sum += partials[i * kKeyBlockKeys + key];
  p.importance[int64_t{kv_head} * places + place] = sum;
}

template <int kHeadDim>
ErrorCode LaunchAs(const KeyImportanceParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = params.end_key_block - params.first_key_block,
      .blocks_y = params.shape.kv_heads,
      .threads = kThreads,
      .shared_bytes = SmemLayoutOf(kHeadDim).bytes,
  };
  return Launch(&KeyImportanceKernel<kHeadDim>, shape, stream, params);
}

}  // namespace

ErrorCode LoadKeyImportanceKernels(int shared_bytes) {
  for (const auto kernel : {&KeyImportanceKernel<16>, &KeyImportanceKernel<32>,
                            &KeyImportanceKernel<64>, &KeyImportanceKernel<128>}) {
    if (const ErrorCode error = LoadKernel(kernel, shared_bytes); error != 0) return error;
  }
  return 0;
}

ErrorCode LaunchKeyImportance(const KeyImportanceParams& params, Stream stream) {
  assert(ValidateKeyImportance(params).ok());
  switch (params.shape.head_dim) {
    case 16:
      return LaunchAs<16>(params, stream);
    case 32:
      return LaunchAs<32>(params, stream);
    case 64:
      return LaunchAs<64>(params, stream);
    default:
      return LaunchAs<128>(params, stream);
  }
}

}  // namespace chorale::kernels::cuda
