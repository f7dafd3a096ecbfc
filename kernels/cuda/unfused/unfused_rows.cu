#include <cassert>

#include "base/integer_math.h"
#include "kernels/cuda/layer/combine_splits.cuh"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/store_qkv.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/unfused/store_kv.cuh"
#include "kernels/cuda/unfused/unfused_rows.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Index of a block in x, counted from the last: kernels that follow a GEMM begin where it has
// written last, which L2 still holds, and end where the next GEMM begins to read.
__device__ __forceinline__ int ReversedBlock() {
  return static_cast<int>(gridDim.x) - 1 - static_cast<int>(blockIdx.x);
}

__device__ __forceinline__ Words2 PackQuad(const Floats4& quad) {
  return {PackBf16(quad.v[0], quad.v[1]), PackBf16(quad.v[2], quad.v[3])};
}

// ---- Attention of split keys -----------------------------------------------------------------

// Grid: x tiles, y four rows at a time. A thread combines four neighbouring columns of a row at a
// time.
//
// -inf: see CombineMax; a row without keys gets zeros.
__global__ void __launch_bounds__(kThreads)
    CombinePartialsKernel(const __grid_constant__ CombinePartialsParams p) {
  constexpr int kBlockRows = 4;
  GridDepLaunch();
  GridDepWait();
  const Tile tile = LoadCg<Tile>(p.tiles + blockIdx.x);
  const int first_row = blockIdx.y * kBlockRows;
  if (first_row >= tile.groups * kGroupRows) return;
  LayerParams partials;
  partials.partial_o = p.partial_o;
  partials.partial_ml = p.partial_ml;
  partials.tile_count = p.tile_count;
  partials.shape = p.shape;
  const int width = p.shape.query_width();
  const int head_shift = 31 - __clz(p.shape.head_dim);
  const TileSplits splits(p.tiles + blockIdx.x);
#pragma unroll 1
  for (int i = ThreadIndex() * 4; i < kBlockRows * width; i += kThreads * 4) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kTileRows + first_row + i / width;
    const int column = i % width;
    Floats4 o[1];
    CombineElements<1, kSplitsTogether>(partials.shape, splits,
                                        PartialSource(partials, row, column, head_shift), 0, o);
    StoreAs<Words2>(p.attended + row * width + column, PackQuad(o[0]));
  }
}

// ---- Layer norm ------------------------------------------------------------------------------

// A row in the registers of a warp: lane l has columns 128 q + 4 l to 128 q + 4 l + 3.
template <int kQuads>
struct WarpRow {
  Floats4 quads[kQuads];

  __device__ __forceinline__ static int Column(int q) {
    return q * kWarpSize * 4 + LaneIndex() * 4;
  }

  __device__ __forceinline__ void Load(const float* x, const float* bias, int width) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      quads[q] = {};
      if (Column(q) < width) quads[q] = LoadCg<Floats4>(x + Column(q));
    }
    if (bias == nullptr) return;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (Column(q) >= width) continue;
      const Floats4 b = LoadAs<Floats4>(bias + Column(q));
#pragma unroll
      for (int i = 0; i < 4; ++i) quads[q].v[i] += b.v[i];
    }
  }

  __device__ __forceinline__ void Normalize(const float* gamma, const float* beta, int width,
                                            float epsilon) {
    const float weight = 1.0f / static_cast<float>(width);
    float sum = 0;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum += quads[q].v[i];  // zeros beyond the width
    }
    const float mean = SumOverLanes<kWarpSize>(sum) * weight;
    float squares = 0;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (Column(q) >= width) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        quads[q].v[i] -= mean;
        squares = fmaf(quads[q].v[i], quads[q].v[i], squares);
      }
    }
    const float scale = Rsqrt(SumOverLanes<kWarpSize>(squares) * weight + epsilon);
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (Column(q) >= width) continue;
      const Floats4 g = LoadAs<Floats4>(gamma + Column(q));
      const Floats4 b = LoadAs<Floats4>(beta + Column(q));
#pragma unroll
      for (int i = 0; i < 4; ++i) quads[q].v[i] = fmaf(quads[q].v[i] * scale, g.v[i], b.v[i]);
    }
  }
};

constexpr int kNormRows = kThreads / kWarpSize;  // of a block, one warp each

// Grid: x blocks of kNormRows rows.
template <int kQuads>
__global__ void __launch_bounds__(kThreads)
    NormalizeRowsKernel(const __grid_constant__ NormalizeRowsParams p) {
  GridDepLaunch();
  GridDepWait();
  const int64_t row = int64_t{ReversedBlock()} * kNormRows + WarpIndex();
  if (row >= p.rows) return;
  float* const x = p.x + row * p.width;
  WarpRow<kQuads> values;
  values.Load(x, p.bias, p.width);
  if (p.gamma != nullptr) values.Normalize(p.gamma, p.beta, p.width, p.epsilon);
  uint16_t* const z = p.z + row * p.width;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int column = values.Column(q);
    if (column >= p.width) continue;
    if (p.gamma != nullptr) StoreAs<Floats4>(x + column, values.quads[q]);
    StoreAs<Words2>(z + column, PackQuad(values.quads[q]));
  }
}

// Grid: likewise, of the rows that have a head.
template <int kQuads>
__global__ void __launch_bounds__(kThreads)
    HeadPartsKernel(const __grid_constant__ HeadPartsParams p) {
  GridDepLaunch();
  GridDepWait();
  const int of_tile = p.of_paths ? kTilePaths : kTileRows;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kNormRows + WarpIndex();
  const int64_t tile = row / of_tile;
  if (tile >= p.tile_count) return;
  const int in_tile = static_cast<int>(row % of_tile);
  // A path's query row is row g of its group.
  const int from =
      p.of_paths ? in_tile / kGroupPaths * kGroupRows + in_tile % kGroupPaths : in_tile;
  WarpRow<kQuads> values;
  values.Load(p.x + (tile * kTileRows + from) * p.width, nullptr, p.width);
  values.Normalize(p.gamma, p.beta, p.width, p.epsilon);
  uint16_t* const parts = p.parts + row * 3 * p.width;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int column = values.Column(q);
    if (column >= p.width) continue;
    const Floats4& v = values.quads[q];
    const Words2 high = PackQuad(v);
    const Words2 low = PackQuad({v.v[0] - FirstBf16(high.w[0]), v.v[1] - SecondBf16(high.w[0]),
                                 v.v[2] - FirstBf16(high.w[1]), v.v[3] - SecondBf16(high.w[1])});
    StoreAs<Words2>(parts + column, high);
    StoreAs<Words2>(parts + p.width + column, low);
    StoreAs<Words2>(parts + 2 * p.width + column, high);
  }
}

// Returns use(kernel) for the variant of Kernels that holds a row of `width`.
template <typename Kernels, typename Use>
ErrorCode WithQuads(int width, const Use& use) {
  if (width <= 512) return use(Kernels::template kKernel<4>);
  if (width <= 768) return use(Kernels::template kKernel<6>);
  return width <= 1'024 ? use(Kernels::template kKernel<8>) : use(Kernels::template kKernel<16>);
}

struct NormalizeKernels {
  template <int kQuads>
  static constexpr auto kKernel = &NormalizeRowsKernel<kQuads>;
};
struct HeadPartsKernels {
  template <int kQuads>
  static constexpr auto kKernel = &HeadPartsKernel<kQuads>;
};

// ---- GELU ------------------------------------------------------------------------------------

// Grid: x blocks of kThreads pieces of 8 elements.
__global__ void __launch_bounds__(kThreads)
    GeluRowsKernel(const __grid_constant__ GeluRowsParams p) {
  GridDepLaunch();
  GridDepWait();
  const int64_t at = (int64_t{ReversedBlock()} * kThreads + ThreadIndex()) * 8;
  if (at >= p.rows * p.width) return;
  const int column = static_cast<int>(at % p.width);
  Words4 words = LoadCg<Words4>(p.hidden + at);
#pragma unroll
  for (int quad = 0; quad < 2; ++quad) {
    const Floats4 b = LoadAs<Floats4>(p.b1 + column + 4 * quad);
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      uint32_t& word = words.w[2 * quad + pair];
      word = PackBf16(Gelu(FirstBf16(word) + b.v[2 * pair]),
                      Gelu(SecondBf16(word) + b.v[2 * pair + 1]));
    }
  }
  StoreAs<Words4>(p.hidden + at, words);
}

// ---- K and V ---------------------------------------------------------------------------------

// Grid: x tiles, y K/V heads.
__global__ void __launch_bounds__(kStoreKvThreads)
    StoreKvKernel(const __grid_constant__ StoreKvParams p) {
  GridDepLaunch();
  GridDepWait();
  const int tile_index = ReversedBlock();
  const Tile tile = LoadCg<Tile>(p.tiles + tile_index);
  const bool to_context = tile.first_row >= 0;
  if (tile.groups == 0 || (!to_context && tile.append_position < 0)) return;
  const int kv_head = blockIdx.y;
  const int row_stride = p.shape.qkv_width();
  const uint16_t* const keys = p.qkv + int64_t{tile_index} * kTileRows * row_stride +
                               (p.shape.heads + kv_head) * p.shape.head_dim;
  const uint16_t* const values = keys + p.shape.kv_heads * p.shape.head_dim;
  if (!to_context) return StoreTokens(tile, p, keys, values, row_stride, kv_head);
  uint16_t* const key_block =
      tile.context + ContextKeyBlockAt(p.kv_layer, kv_head, tile.first_row / kKeyBlockKeys,
                                       tile.context_capacity, p.shape.kv_heads, p.shape.head_dim);
  switch (p.shape.head_dim) {
    case 32:
      return StoreSwizzledHead<32>(tile, keys, values, row_stride, key_block);
    case 64:
      return StoreSwizzledHead<64>(tile, keys, values, row_stride, key_block);
    case 128:
      return StoreSwizzledHead<128>(tile, keys, values, row_stride, key_block);
    default:  // 16
      return StoreNarrowHead(tile, p, keys, values, row_stride, key_block);
  }
}

template <typename Kernels>
ErrorCode LoadQuads(int shared_bytes) {
  for (const int width : {512, 768, 1'024, 2'048}) {
    const ErrorCode error =
        WithQuads<Kernels>(width, [&](auto kernel) { return LoadKernel(kernel, shared_bytes); });
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace

ErrorCode LoadUnfusedRowsKernels(int shared_bytes) {
  for (const ErrorCode error :
       {LoadQuads<NormalizeKernels>(shared_bytes), LoadQuads<HeadPartsKernels>(shared_bytes),
        LoadKernel(&CombinePartialsKernel, shared_bytes), LoadKernel(&GeluRowsKernel, shared_bytes),
        LoadKernel(&StoreKvKernel, shared_bytes)}) {
    if (error != 0) return error;
  }
  return 0;
}

ErrorCode LaunchCombinePartials(const CombinePartialsParams& params, Stream stream) {
  assert(ValidateCombinePartials(params).ok());
  return Launch(&CombinePartialsKernel,
                {.blocks_x = params.tile_count, .blocks_y = kTileRows / 4, .threads = kThreads},
                stream, params);
}

ErrorCode LaunchNormalizeRows(const NormalizeRowsParams& params, Stream stream) {
  assert(ValidateNormalizeRows(params).ok());
  const int blocks = static_cast<int>(CeilDiv(params.rows, kNormRows));
  return WithQuads<NormalizeKernels>(params.width, [&](auto kernel) {
    return Launch(kernel, {.blocks_x = blocks, .threads = kThreads}, stream, params);
  });
}

ErrorCode LaunchHeadParts(const HeadPartsParams& params, Stream stream) {
  assert(ValidateHeadParts(params).ok());
  const int rows = params.tile_count * (params.of_paths ? kTilePaths : kTileRows);
  return WithQuads<HeadPartsKernels>(params.width, [&](auto kernel) {
    return Launch(kernel, {.blocks_x = rows / kNormRows, .threads = kThreads}, stream, params);
  });
}

ErrorCode LaunchGeluRows(const GeluRowsParams& params, Stream stream) {
  assert(ValidateGeluRows(params).ok());
  const int blocks = static_cast<int>(CeilDiv(params.rows * params.width, int64_t{kThreads} * 8));
  return Launch(&GeluRowsKernel, {.blocks_x = blocks, .threads = kThreads}, stream, params);
}

ErrorCode LaunchStoreKv(const StoreKvParams& params, Stream stream) {
  assert(ValidateStoreKv(params).ok());
  return Launch(&StoreKvKernel,
                {.blocks_x = params.tile_count,
                 .blocks_y = params.shape.kv_heads,
                 .threads = kStoreKvThreads},
                stream, params);
}

}  // namespace chorale::kernels::cuda
