#include "kernels/cuda/attention.h"
#include "kernels/cuda/chunk_state.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layout.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = kTileGroups;  // a warp has one group of rows
constexpr int kThreads = kWarps * kWarp;

template <int kHeadDim>
struct Traits {
  static constexpr int kSlice = HeadSlice(kHeadDim);
  static constexpr int kSlices = kHeadDim / kSlice;
  static constexpr int kLaneElements = kSlice / 4;  // of a slice, with one lane
  static constexpr int kSteps = kSlice / 16;        // instructions along a slice
  static constexpr int kColumns = kHeadDim / 8;     // instructions along the head, for V
  static constexpr int kBlockBytes = static_cast<int>(BlockSize(kHeadDim)) * 2;
  static constexpr int kStages = kHeadDim <= 32 ? 4 : kHeadDim == 64 ? 3 : 2;
  static constexpr int kSharedBytes = kStages * kBlockBytes;
  static_assert(kBlockBytes % (16 * kThreads) == 0);
};

// What one lane holds of a warp's 16 rows: m and l of rows g and g + 8, o of their columns
// 8n + {2j, 2j+1}. m has the same bits in the four lanes of a row; l is this lane's share until
// FinishChunk.
template <int kHeadDim>
struct RowState {
  float m[2];
  float l[2];
  float o[Traits<kHeadDim>::kColumns][4];

  __device__ __forceinline__ void Clear() {
    for (int half = 0; half < 2; ++half) {
      m[half] = -INFINITY;
      l[half] = 0;
    }
#pragma unroll
    for (int n = 0; n < Traits<kHeadDim>::kColumns; ++n) {
      for (int i = 0; i < 4; ++i) o[n][i] = 0;
    }
  }

  // Makes room for scores up to `largest`, and returns what all that is summed so far was scaled
  // by. With no key yet, m is -inf: 2^-inf = 0 scales zeros.
  __device__ __forceinline__ void RaiseMaximum(int half, float largest) {
    const float raised = fmaxf(m[half], largest);
    const float scale = raised == -INFINITY ? 1.0f : Exp2(m[half] - raised);
    m[half] = raised;
    l[half] *= scale;
#pragma unroll
    for (int n = 0; n < Traits<kHeadDim>::kColumns; ++n) {
      o[n][2 * half] *= scale;
      o[n][2 * half + 1] *= scale;
    }
  }

  __device__ __forceinline__ void FinishChunk() {
    for (int half = 0; half < 2; ++half) l[half] = SumOverLanes<4>(l[half]);
  }

  // REQUIRES: FinishChunk was called on `chunk`.
  __device__ __forceinline__ void Merge(const RowState& chunk) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const MergeScale scale = MergeMaximum(m[half], chunk.m[half]);
      l[half] = MergeSum(l[half], chunk.l[half], scale);
#pragma unroll
      for (int n = 0; n < Traits<kHeadDim>::kColumns; ++n) {
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          o[n][i] = MergeSum(o[n][i], chunk.o[n][i], scale);
        }
      }
    }
  }
};

// A lane's share of one slice of a row: two or four words of two bf16 each.
template <int kWords>
struct SliceWords {
  uint32_t w[kWords];

  __device__ __forceinline__ void Load(const uint16_t* from) {
    if constexpr (kWords == 4) {
      const Words4 words = LoadAs<Words4>(from);
      for (int i = 0; i < 4; ++i) w[i] = words.w[i];
    } else {
      const Words2 words = LoadAs<Words2>(from);
      for (int i = 0; i < 2; ++i) w[i] = words.w[i];
    }
  }
};

template <int kHeadDim>
struct Queries {
  using T = Traits<kHeadDim>;
  SliceWords<T::kLaneElements / 2> row[2][T::kSlices];  // rows g and g + 8

  // `q` is the head of the group's first row; rows lie row_stride apart.
  __device__ __forceinline__ void Load(const uint16_t* q, int row_stride, int lane) {
    for (int half = 0; half < 2; ++half) {
      const uint16_t* from = q + (lane / 4 + 8 * half) * row_stride + lane % 4 * T::kLaneElements;
#pragma unroll
      for (int s = 0; s < T::kSlices; ++s) row[half][s].Load(from + s * T::kSlice);
    }
  }
};

// One block of 64 context keys in shared memory, of which the first `valid` count, 1 to 64.
template <int kHeadDim>
__device__ __forceinline__ void AttendBlock(const uint16_t* block, int valid,
                                            const Queries<kHeadDim>& q, RowState<kHeadDim>& state) {
  using T = Traits<kHeadDim>;
  const int lane = threadIdx.x % kWarp;
  float s[kBlockKeys / 8][4];  // scores of rows g and g + 8, keys 8n + {2j, 2j+1}
#pragma unroll
  for (int n = 0; n < kBlockKeys / 8; ++n) {
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
#pragma unroll
    for (int b = 0; b < T::kSlices; ++b) {
      SliceWords<T::kLaneElements / 2> k;
      k.Load(block + (n * T::kSlices + b) * 8 * T::kSlice + lane * T::kLaneElements);
#pragma unroll
      for (int step = 0; step < T::kSteps; ++step) {
        Mma(s[n], q.row[0][b].w[2 * step], q.row[1][b].w[2 * step], q.row[0][b].w[2 * step + 1],
            q.row[1][b].w[2 * step + 1], k.w[2 * step], k.w[2 * step + 1]);
      }
    }
  }
  if (valid < kBlockKeys) {
#pragma unroll
    for (int n = 0; n < kBlockKeys / 8; ++n) {
      for (int i = 0; i < 4; ++i) {
        if (8 * n + lane % 4 * 2 + i % 2 >= valid) s[n][i] = -INFINITY;
      }
    }
  }
  for (int half = 0; half < 2; ++half) {
    float largest = s[0][2 * half];
#pragma unroll
    for (int n = 0; n < kBlockKeys / 8; ++n) {
      largest = fmaxf(largest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    }
    state.RaiseMaximum(half, MaxOverLanes<4>(largest));
#pragma unroll
    for (int n = 0; n < kBlockKeys / 8; ++n) {
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[n][i] = Exp2(s[n][i] - state.m[half]);
        state.l[half] += s[n][i];
      }
    }
  }
  const uint16_t* values = block + kBlockKeys * kHeadDim + lane * 8;
#pragma unroll
  for (int g = 0; g < kBlockKeys / 16; ++g) {
    const float(&p)[4] = s[2 * g];
    const float(&next)[4] = s[2 * g + 1];
    const uint32_t a0 = PackBf16(p[0], p[1]);
    const uint32_t a1 = PackBf16(p[2], p[3]);
    const uint32_t a2 = PackBf16(next[0], next[1]);
    const uint32_t a3 = PackBf16(next[2], next[3]);
#pragma unroll
    for (int n = 0; n < T::kColumns; n += 2) {
      const Words4 v = LoadAs<Words4>(values + (g * (kHeadDim / 16) + n / 2) * 256);
      Mma(state.o[n], a0, a1, a2, a3, v.w[0], v.w[1]);
      Mma(state.o[n + 1], a0, a1, a2, a3, v.w[2], v.w[3]);
    }
  }
}

// The buffer of the lane's path, which four lanes read together. `keys` is the K of the path's
// place 0, V lies value_offset behind K, and places lie place_stride apart. Row g attends to
// `visible[0]` places, row g + 8 to `visible[1]`.
template <int kHeadDim>
__device__ __forceinline__ void AttendBuffer(const uint16_t* keys, int64_t value_offset,
                                             int64_t place_stride, const int (&visible)[2],
                                             const Queries<kHeadDim>& q,
                                             RowState<kHeadDim>& state) {
  using T = Traits<kHeadDim>;
  constexpr int kTogether = kHeadDim <= 64 ? 4 : 2;  // places whose loads are in flight together
  const int lane = threadIdx.x % kWarp;
  const int places = max(visible[0], visible[1]);
  for (int first = 0; first < places; first += kTogether) {
    float s[kTogether][2];
    SliceWords<T::kLaneElements / 2> k[kTogether][T::kSlices];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int place = min(first + i, places - 1);  // the last one again, but not counted again
#pragma unroll
      for (int b = 0; b < T::kSlices; ++b) {
        k[i][b].Load(keys + place * place_stride + b * T::kSlice + lane % 4 * T::kLaneElements);
      }
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      for (int half = 0; half < 2; ++half) {
        float dot = 0;
#pragma unroll
        for (int b = 0; b < T::kSlices; ++b) {
          for (int w = 0; w < T::kLaneElements / 2; ++w) {
            const uint32_t qw = q.row[half][b].w[w];
            dot = fmaf(FirstBf16(qw), FirstBf16(k[i][b].w[w]), dot);
            dot = fmaf(SecondBf16(qw), SecondBf16(k[i][b].w[w]), dot);
          }
        }
        dot = SumOverLanes<4>(dot);
        s[i][half] = first + i < visible[half] ? dot : -INFINITY;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = s[0][half];
      for (int i = 1; i < kTogether; ++i) largest = fmaxf(largest, s[i][half]);
      state.RaiseMaximum(half, largest);
      for (int i = 0; i < kTogether; ++i) {
        // A row that has seen no key at all keeps m = -inf, and all its scores are -inf.
        s[i][half] = s[i][half] == -INFINITY ? 0.0f : Exp2(s[i][half] - state.m[half]);
        if (lane % 4 == 0) state.l[half] += s[i][half];  // once a row
      }
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int place = min(first + i, places - 1);
#pragma unroll
      for (int b = 0; b < T::kSlices; ++b) {
        SliceWords<T::kLaneElements / 2> v;
        v.Load(keys + value_offset + place * place_stride + b * T::kSlice +
               lane % 4 * T::kLaneElements);
#pragma unroll
        for (int w = 0; w < T::kLaneElements / 2; ++w) {
          float(&o)[4] = state.o[b * (T::kSlice / 8) + w];
          for (int half = 0; half < 2; ++half) {
            o[2 * half] = fmaf(s[i][half], FirstBf16(v.w[w]), o[2 * half]);
            o[2 * half + 1] = fmaf(s[i][half], SecondBf16(v.w[w]), o[2 * half + 1]);
          }
        }
      }
    }
  }
}

template <int kHeadDim>
__device__ __forceinline__ void StoreState(const AttentionParams& p, int slot, int head,
                                           const RowState<kHeadDim>& state) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  for (int half = 0; half < 2; ++half) {
    const int64_t row = (static_cast<int64_t>(slot) * p.tile_count + blockIdx.x) * kTileRows +
                        warp * kGroupRows + half * 8 + lane / 4;
    const int64_t at = row * p.heads + head;
    float* o = p.chunk_o + at * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < Traits<kHeadDim>::kColumns; ++n) {
      StoreAs<Floats2>(o + 8 * n, {state.o[n][2 * half], state.o[n][2 * half + 1]});
    }
    if (lane % 4 == 0) {
      StoreAs<Floats2>(p.chunk_state + at * 2, {state.m[half], state.l[half]});
    }
  }
}

// Grid: x tiles, y heads, z chunks (1 when they are done together). A block owns one head of one
// tile's 64 rows, a warp 16 of them. The chunk's keys and values stream through shared memory once
// and are read by all warps; queries and states stay in registers; a path's buffer goes from global
// memory to the four lanes that own its two rows.
//
// -inf: every block of context keys has at least one that counts, so m is finite after the first
// one; before it, only zeros are scaled.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads) AttentionKernel(AttentionParams p) {
  using T = Traits<kHeadDim>;
  LetNextBegin();
  WaitForPrevious();
  const Tile tile = p.tiles[blockIdx.x];
  const int head = blockIdx.y;
  const int kv_head = head / (p.heads / p.kv_heads);
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const bool together = p.split == ChunkSplit::kTogether;
  const int blocks = static_cast<int>(ContextBlocks(tile.context_rows));
  const int chunks = static_cast<int>(ContextChunks(tile.context_rows));
  const int slot = blockIdx.z;
  if (tile.groups == 0 || slot >= chunks) return;
  const int first = slot * kChunkBlocks;
  const int end = together ? blocks : min(blocks, first + kChunkBlocks);
  const bool in_use = warp < tile.groups;

  const uint16_t* context = tile.context +
                            p.layer * ContextLayerSize(tile.context_rows, p.kv_heads, kHeadDim) +
                            kv_head * blocks * BlockSize(kHeadDim);
  char* shared = Shared();
  const auto fetch = [&](int block) {
    if (block < end) {
      const char* from = reinterpret_cast<const char*>(context + block * BlockSize(kHeadDim));
      char* to = shared + (block - first) % T::kStages * T::kBlockBytes;
      for (int at = threadIdx.x * 16; at < T::kBlockBytes; at += kThreads * 16) {
        CopyLater16(to + at, from + at);
      }
    }
    CommitCopies();
  };
  for (int i = 0; i < T::kStages - 1; ++i) fetch(first + i);

  Queries<kHeadDim> q = {};
  if (in_use) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kTileRows + warp * kGroupRows;
    q.Load(p.q + (row * p.heads + head) * kHeadDim, p.heads * kHeadDim, lane);
  }
  RowState<kHeadDim> merged;
  RowState<kHeadDim> state;
  merged.Clear();
  state.Clear();
  for (int block = first; block < end; ++block) {
    WaitForCopies<T::kStages - 2>();
    __syncthreads();  // the block has arrived for all, and all are done with the one before it
    fetch(block + T::kStages - 1);
    if (!in_use) continue;
    const char* keys = shared + (block - first) % T::kStages * T::kBlockBytes;
    AttendBlock<kHeadDim>(reinterpret_cast<const uint16_t*>(keys),
                          min(kBlockKeys, tile.context_rows - block * kBlockKeys), q, state);
    if ((block + 1) % kChunkBlocks == 0 && block + 1 < end) {  // more chunks follow
      state.FinishChunk();
      merged.Merge(state);
      state.Clear();
    }
  }
  WaitForCopies<0>();
  if (!in_use) return;

  const int visible[2] = {tile.visible_target, tile.visible_buffer};
  const int path = warp * kGroupPaths + lane / 4;
  const bool last = together || slot == chunks - 1;
  if (last && tile.buffer != nullptr && warp * kGroupPaths < tile.buffer_paths) {
    const int64_t layer_size =
        BufferLayerSize(tile.buffer_capacity, tile.buffer_paths, p.kv_heads, kHeadDim);
    const uint16_t* keys =
        tile.buffer + p.layer * layer_size +
        BufferKeyAt(kv_head, 0, path, tile.buffer_capacity, tile.buffer_paths, kHeadDim);
    const int64_t value_offset = static_cast<int64_t>(tile.buffer_paths) * kHeadDim;
    AttendBuffer<kHeadDim>(keys, value_offset, 2 * value_offset, visible, q, state);
  }
  state.FinishChunk();
  if (together) {
    merged.Merge(state);
    StoreState<kHeadDim>(p, 0, head, merged);
  } else {
    StoreState<kHeadDim>(p, slot, head, state);
  }
}

template <int kHeadDim>
ErrorCode LaunchFor(const AttentionParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = params.tile_count,
      .blocks_y = params.heads,
      .blocks_z = params.split == ChunkSplit::kTogether ? 1 : params.slots,
      .threads = kThreads,
      .shared_bytes = Traits<kHeadDim>::kSharedBytes,
  };
  return Launch(&AttentionKernel<kHeadDim>, shape, stream, params);
}

}  // namespace

ErrorCode LaunchAttention(const AttentionParams& params, Stream stream) {
  switch (params.head_dim) {
    case 16:
      return LaunchFor<16>(params, stream);
    case 32:
      return LaunchFor<32>(params, stream);
    case 64:
      return LaunchFor<64>(params, stream);
    default:
      return LaunchFor<128>(params, stream);
  }
}

}  // namespace chorale::kernels::cuda
