// What a block of the head kernel computes: sets of 8 rows. The rows of a set are the query rows of
// one group of paths, or any 8 rows of a tile that predicts.
#ifndef CHORALE_KERNELS_CUDA_HEAD_HEAD_ROWS_CUH_
#define CHORALE_KERNELS_CUDA_HEAD_HEAD_ROWS_CUH_

#include "base/integer_math.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/head/row_mixture.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {

inline constexpr int kHeadThreads = kHeadWarps * kWarpSize;
static_assert(kHeadRows == kGroupPaths && 2 * kHeadRows == kHeadWarps);

struct HeadKernelParams {
  HeadParams head;
  HeadLayout shared;
  HeadMap maps[2];
};

constexpr HeadKernelParams HeadKernelParamsOf(const HeadParams& params, const HeadLayout& shared) {
  const HeadWeights& w = params.weights;
  const HeadScales& scales = w.scales;
  return {params,
          shared,
          {HeadMapOf(w.w1, scales.w1 * scales.z, params.shape.hidden, params.shape.width),
           HeadMapOf(w.w2, scales.w2 * scales.hidden, 3 * params.shape.components,
                     params.shape.hidden)}};
}

// The row sets of a block of kSets sets.
struct HeadRows {
  int tile_index;
  int first_set;  // in the tile
  int in_use;     // rows of the block that are in use, the first ones
  int blocks;     // of the tile that have rows in use
};

template <int kSets>
__device__ __forceinline__ HeadRows HeadRowsOfBlock(const HeadParams& p) {
  const bool of_paths = p.paths != nullptr;
  const int blocks = (of_paths ? kTileGroups : kTileRows / kHeadRows) / kSets;
  HeadRows rows;
  rows.tile_index = static_cast<int>(blockIdx.x) / blocks;
  rows.first_set = static_cast<int>(blockIdx.x) % blocks * kSets;
  const int groups = LoadCg<int32_t>(&p.tiles[rows.tile_index].groups);
  rows.in_use = min(groups * (of_paths ? kGroupPaths : kGroupRows) - rows.first_set * kHeadRows,
                    kSets * kHeadRows);
  rows.blocks = static_cast<int>(CeilDiv(groups * (of_paths ? 1 : 2), kSets));
  return rows;
}

// A warp's work in one pass over a map: one output tile, and one k-split of its inputs.
struct HeadWarpTask {
  const uint16_t* weight;  // the lane's first; a valid address even without work
  int first_step;          // k-step, counted from the first in shared memory
  int k_steps;             // 0: no work in this pass
};

// The inputs of `steps` k-steps from `base` on are in shared memory.
__device__ __forceinline__ HeadWarpTask WarpTaskOf(const HeadMap& map, int pass, int base,
                                                   int steps) {
  const int warp = WarpIndex();
  const int split = warp >> map.tile_bits;
  const int tile = (pass << map.tile_bits) + (warp & ((1 << map.tile_bits) - 1));
  const int first = (split * steps) >> map.k_split_bits;
  const int end = ((split + 1) * steps) >> map.k_split_bits;
  HeadWarpTask task = {map.weight + LaneIndex() * 8, first, 0};
  if (tile < map.output_tiles && first < end) {
    task.weight += (tile * map.k_steps + base + first) * kHeadStepSize;
    task.k_steps = end - first;
  }
  return task;
}

// `pass` counts on from the first map to the second.
__device__ __forceinline__ HeadWarpTask WarpTaskOf(const HeadKernelParams& params, int pass) {
  const int before = params.maps[0].passes;
  const HeadMap& map = params.maps[pass < before ? 0 : 1];
  return WarpTaskOf(map, pass < before ? pass : pass - before, 0, map.k_steps);
}

// A lane's next weights: the operands of some mma, as roundings and rests. In a block of one set,
// which waits for weights most of the time, they are those of a k-step; registers limit others to
// half of it: 32 KB of a block are in flight, about what saturates L2.
template <int kSets>
struct HeadWeightFragment {
  static constexpr int kDepth = kSets == 1 ? 4 : 2;
  Words4 v[kDepth][2];
};

__device__ __forceinline__ void LoadWeights(const uint16_t* weight, Words4 (&to)[2]) {
  to[0] = LoadAs<Words4>(weight);
  to[1] = LoadAs<Words4>(weight + kHeadFragment / 2);
}

template <int kSets>
__device__ __forceinline__ void LoadWeightFragment(const uint16_t* weight,
                                                   HeadWeightFragment<kSets>& fragment) {
#pragma unroll
  for (int i = 0; i < fragment.kDepth; ++i) {
    LoadWeights(weight + i * kHeadFragment, fragment.v[i]);
  }
}

// Computes a warp's task on the activations `in` and stores its sums to `partials`. On entry,
// `fragment` holds the task's first weights; on exit, the weights at `next`: each register is
// reloaded as soon as it has been used. Products with a rest are summed apart: an mma truncates its
// sums, and sums of less than those of the roundings lose less.
template <int kSets>
__device__ __forceinline__ void MultiplyTask(const HeadWarpTask& task, const uint16_t* next,
                                             const Words4* in, HeadWeightFragment<kSets>& fragment,
                                             Floats4* partials) {
  constexpr int kMmas = kHeadInputs / kHeadMmaInputs;  // of a k-step
  constexpr int kDepth = HeadWeightFragment<kSets>::kDepth;
  const uint16_t* weight = task.weight;
  const Words4* inputs =
      in + task.first_step * (kMmas * kSets * kWarpSize) + HeadQuadOfLane(LaneIndex());
  float sums[kSets][4] = {};
  if (task.k_steps == 0) LoadWeightFragment<kSets>(next, fragment);
#pragma unroll 1
  for (int left = task.k_steps; left > 0; --left) {
    const uint16_t* const after = left > 1 ? weight + kHeadStepSize : next;
#pragma unroll
    for (int i = 0; i < kMmas; ++i) {
      Words4(&w)[2] = fragment.v[i % kDepth];
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        const Words4 z = inputs[(i * kSets + set) * kWarpSize];
        float rests[4] = {};
        MmaFp16(rests, w[0].w, z.w[1], z.w[3]);
        MmaFp16(rests, w[1].w, z.w[0], z.w[2]);
        MmaFp16(sums[set], w[0].w, z.w[0], z.w[2]);
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[set][k] += rests[k];
      }
      const int ahead = i + kDepth;
      LoadWeights(
          ahead < kMmas ? weight + ahead * kHeadFragment : after + (ahead - kMmas) * kHeadFragment,
          w);
      // Keeps the compiler from sinking these loads below the last input.
      __syncwarp();
    }
    weight = after;
    inputs += kMmas * kSets * kWarpSize;
  }
  Floats4* const to = partials + WarpIndex() * kSets * kWarpSize + LaneIndex();
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
    to[set * kWarpSize] = {sums[set][0], sums[set][1], sums[set][2], sums[set][3]};
  }
}

// Two words of a quad: the roundings and the rests of two activations.
__device__ __forceinline__ Words2 SplitActivations(float first, float second) {
  const uint32_t rounded = PackFp16(first, second);
  return {rounded, PackFp16(first - FirstFp16(rounded), second - SecondFp16(rounded))};
}
__device__ __forceinline__ Words4 SplitActivations(const Floats4& z) {
  const Words2 first = SplitActivations(z.v[0], z.v[1]);
  const Words2 second = SplitActivations(z.v[2], z.v[3]);
  return {first.w[0], first.w[1], second.w[0], second.w[1]};
}

// Adds up the partial sums of one pass, those of an output tile and a row set by one warp: hidden =
// gelu(W1 z + b1), or raw += W2 hidden.
template <int kSets>
__device__ __forceinline__ void ReducePartials(const HeadKernelParams& params, bool first_map,
                                               int pass, char* shared) {
  const HeadMap& map = params.maps[first_map ? 0 : 1];
  const int first_tile = pass << map.tile_bits;
  const int tiles = min(1 << map.tile_bits, map.output_tiles - first_tile);
  const int raw_stride = HeadRawStride(params.head.shape.components);
#pragma unroll 1
  for (int i = WarpIndex(); i < tiles * kSets; i += kHeadWarps) {
    // The lane's sums: two outputs of two rows.
    const int output = (first_tile + i / kSets) * kHeadOutputs + LaneIndex() / 4 * 2;
    const int row = i % kSets * kHeadRows + LaneIndex() % 4 * 2;
    float* const raw = params.shared.raw.At(shared) + row * raw_stride + output;
    const float* const bias = params.shared.b1.At(shared) + output;
    Floats2 sums[2] = {LoadAs<Floats2>(first_map ? bias : raw),
                       LoadAs<Floats2>(first_map ? bias : raw + raw_stride)};
    const Floats4* from = params.shared.partials.At(shared) + i * kWarpSize + LaneIndex();
#pragma unroll 4
    for (int k = 0; k < 1 << map.k_split_bits; ++k) {
      const Floats4 partial = *from;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sums[j % 2].v[j / 2] = fmaf(partial.v[j], map.unscale, sums[j % 2].v[j / 2]);
      }
      from += kSets * kWarpSize << map.tile_bits;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!first_map) {
        StoreAs<Floats2>(raw + r * raw_stride, sums[r]);
        continue;
      }
      const float scale = params.head.weights.scales.hidden;
      auto* const quad = params.shared.hidden.At(shared) + HeadQuadAt(row + r, output, kSets);
      StoreAs<Words2>(quad->w + output % 4,
                      SplitActivations(Gelu(sums[r].v[0]) * scale, Gelu(sums[r].v[1]) * scale));
    }
  }
}

// Both maps in one loop, to keep the code small: instruction fetches cost latency, too. `fragment`
// holds the first weights; the second map's are loaded while sums of the first are reduced.
template <int kSets>
__device__ __forceinline__ void MultiplyHead(const HeadKernelParams& params,
                                             HeadWeightFragment<kSets>& fragment, char* shared) {
  const int before = params.maps[0].passes;
  const int passes = before + params.maps[1].passes;
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
    const bool first_map = pass < before;
    const Words4* in = (first_map ? params.shared.z : params.shared.hidden).At(shared);
    MultiplyTask<kSets>(WarpTaskOf(params, pass), WarpTaskOf(params, pass + 1).weight, in, fragment,
                        params.shared.partials.At(shared));
    __syncthreads();
    ReducePartials<kSets>(params, first_map, first_map ? pass : pass - before, shared);
    __syncthreads();
  }
}

// Copies b2, to the raw outputs of all rows, and the biases of the mixture to shared memory.
template <int kSets>
__device__ __forceinline__ void LoadMixtureVectors(const HeadKernelParams& params, char* shared) {
  const HeadParams& p = params.head;
  const int raw_stride = HeadRawStride(p.shape.components);
  const int outputs = 3 * p.shape.components;
#pragma unroll 1
  for (int i = kHeadThreads - 1 - ThreadIndex(); i < raw_stride; i += kHeadThreads) {
    const int array = i / p.shape.components;
    const float* biases = array == 0   ? p.weights.mean_bias
                          : array == 1 ? p.weights.std_bias
                                       : p.weights.weight_bias;
    const float b2 = i < outputs ? p.weights.b2[i] : 0.0f;
    const float bias = i < outputs ? biases[i - array * p.shape.components] : 0.0f;
    if (i < outputs) params.shared.biases.At(shared)[i] = bias;
    float* const raw = params.shared.raw.At(shared) + i;
#pragma unroll
    for (int row = 0; row < kSets * kHeadRows; ++row) raw[row * raw_stride] = b2;
  }
}

// Copies the small vectors to shared memory. Threads start from both ends, so that no warp waits
// for two loads.
template <int kSets>
__device__ __forceinline__ void LoadHeadVectors(const HeadKernelParams& params, char* shared) {
  const HeadParams& p = params.head;
  const int padded_hidden = params.maps[0].output_tiles * kHeadOutputs;
#pragma unroll 1
  for (int i = ThreadIndex(); i < max(p.shape.width, padded_hidden); i += kHeadThreads) {
    const float gamma = i < p.shape.width ? p.weights.gamma[i] : 0.0f;
    const float beta = i < p.shape.width ? p.weights.beta[i] : 0.0f;
    const float b1 = i < p.shape.hidden ? p.weights.b1[i] : 0.0f;
    if (i < p.shape.width) {
      StoreAs<Floats2>(params.shared.norm.At(shared) + 2 * i, {gamma, beta});
    }
    if (i < padded_hidden) params.shared.b1.At(shared)[i] = b1;
  }
  LoadMixtureVectors<kSets>(params, shared);
}

// Starts to copy the tile's paths, by lanes of one warp.
__device__ __forceinline__ void CopyPaths(const HeadKernelParams& params, int tile_index,
                                          char* shared) {
  constexpr int kPieces = sizeof(PathTile) / sizeof(Words4);
  static_assert(sizeof(PathTile) % sizeof(Words4) == 0 && kPieces <= kWarpSize);
  if (LaneIndex() >= kPieces) return;
  const auto* from = reinterpret_cast<const char*>(params.head.paths + tile_index);
  auto* to = reinterpret_cast<char*>(params.shared.paths.At(shared));
  CpAsync16(to + LaneIndex() * sizeof(Words4), from + LaneIndex() * sizeof(Words4));
}

// z = LN(x), one warp a row, padded with zeros. x is in z, in float32: each lane has loaded the
// quads that it overwrites.
__device__ __forceinline__ void NormalizeHeadRow(const HeadKernelParams& params, int row, int sets,
                                                 char* shared) {
  const HeadParams& p = params.head;
  Words4* const z = params.shared.z.At(shared);
  const int padded_width = params.maps[0].k_steps * kHeadInputs;
  const int first = LaneIndex() * 4;
  constexpr int kAtOnce = kWarpSize * 4;
  const float count = static_cast<float>(p.shape.width);
  float sum = 0;
#pragma unroll 1
  for (int c = first; c < p.shape.width; c += kAtOnce) {
    const Floats4 v = LoadAs<Floats4>(z + HeadQuadAt(row, c, sets));
    sum += (v.v[0] + v.v[1]) + (v.v[2] + v.v[3]);
  }
  const float mean = SumOverLanes<kWarpSize>(sum) / count;
  float squares = 0;
#pragma unroll 1
  for (int c = first; c < p.shape.width; c += kAtOnce) {
    const Floats4 v = LoadAs<Floats4>(z + HeadQuadAt(row, c, sets));
#pragma unroll
    for (int i = 0; i < 4; ++i) squares = fmaf(v.v[i] - mean, v.v[i] - mean, squares);
  }
  const float scale = 1.0f / sqrtf(SumOverLanes<kWarpSize>(squares) / count + p.epsilon);
#pragma unroll 1
  for (int c = first; c < padded_width; c += kAtOnce) {
    Words4* const quad = z + HeadQuadAt(row, c, sets);
    Floats4 v = {};
    if (c < p.shape.width) {
      v = LoadAs<Floats4>(quad);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Floats2 n = LoadAs<Floats2>(params.shared.norm.At(shared) + 2 * (c + i));
        v.v[i] = fmaf((v.v[i] - mean) * scale, n.v[0], n.v[1]) * p.weights.scales.z;
      }
    }
    *quad = SplitActivations(v);
  }
}

// Copies the rows of a block to shared memory, of which it has `sets` sets, and normalises them.
// Rows that are not in use, and those of an idle tile, are valid memory, too.
__device__ __forceinline__ void NormalizeHeadRows(const HeadKernelParams& params,
                                                  const HeadRows& rows, int sets, char* shared) {
  const HeadParams& p = params.head;
  const bool of_paths = p.paths != nullptr;
  const float* x = p.x + static_cast<int64_t>(rows.tile_index) * kTileRows * p.shape.width;
#pragma unroll 1
  for (int row = WarpIndex(); row < sets * kHeadRows; row += kHeadWarps) {
    const int set = rows.first_set + row / kHeadRows;
    const int row_of_tile = set * (of_paths ? kGroupRows : kHeadRows) + row % kHeadRows;
#pragma unroll 1
    for (int c = LaneIndex() * 4; c < p.shape.width; c += kWarpSize * 4) {
      CpAsync16(params.shared.z.At(shared) + HeadQuadAt(row, c, sets),
                x + row_of_tile * p.shape.width + c);
    }
  }
  if (of_paths && WarpIndex() == kHeadWarps - 1) CopyPaths(params, rows.tile_index, shared);
  CpAsyncCommit();
  CpAsyncWait<0>();
#pragma unroll 1
  for (int row = WarpIndex(); row < sets * kHeadRows; row += kHeadWarps) {
    NormalizeHeadRow(params, row, sets, shared);
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_HEAD_ROWS_CUH_
