// What a block of the head kernel computes: 8 rows, the query rows of one group of paths or any 8
// rows of a tile that predicts.
#ifndef CHORALE_KERNELS_CUDA_HEAD_HEAD_ROWS_CUH_
#define CHORALE_KERNELS_CUDA_HEAD_HEAD_ROWS_CUH_

#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/head/row_mixture.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {

inline constexpr int kHeadThreads = kHeadWarps * kWarpSize;
inline constexpr int kHeadPartialSize = kHeadRows * kHeadOutputs;
static_assert(kHeadThreads == kHeadPartialSize && kHeadRows == kGroupPaths);
static_assert(2 * kHeadRows == kHeadWarps);
static_assert(kHeadOutputs == 2 * kWarpSize && kHeadInputs % 4 == 0);

struct HeadKernelParams {
  HeadParams head;
  HeadLayout shared;
  HeadMap maps[2];
};

constexpr HeadKernelParams HeadKernelParamsOf(const HeadParams& params) {
  const HeadWeights& w = params.weights;
  return {params,
          HeadLayoutOf(params.shape),
          {HeadMapOf(w.w1, w.b1, params.shape.hidden, params.shape.width),
           HeadMapOf(w.w2, w.b2, 3 * params.shape.components, params.shape.hidden)}};
}

// A warp's work in one pass over a map: one output tile, and one k-split of its inputs.
struct HeadWarpTask {
  const float* weight;  // the lane's first; a valid address even without work
  int first_step;       // k-step
  int k_steps;          // 0: no work in this pass
};

// `pass` counts on from the first map to the second.
__device__ __forceinline__ HeadWarpTask WarpTaskOf(const HeadKernelParams& params, int pass) {
  const int before = params.maps[0].passes;
  const HeadMap& map = params.maps[pass < before ? 0 : 1];
  const int first_tile = (pass < before ? pass : pass - before) << map.tile_bits;
  const int warp = WarpIndex();
  const int split = warp >> map.tile_bits;
  const int tile = first_tile + (warp & (map.tiles_per_pass - 1));
  const int first = (split * map.k_steps) >> map.k_split_bits;
  const int end = ((split + 1) * map.k_steps) >> map.k_split_bits;
  HeadWarpTask task = {map.weight + LaneIndex() * 4, first, 0};
  if (tile < map.output_tiles && first < end) {
    task.weight += (tile * map.k_steps + first) * kHeadInputs * kHeadOutputs;
    task.k_steps = end - first;
  }
  return task;
}

// A lane's weights of one k-step: two inputs by two outputs each. All warps together have 32 KB in
// flight, about what saturates L2; more would spill registers at two blocks a multiprocessor.
struct HeadWeightFragment {
  Floats4 v[kHeadInputs / 2];
};

__device__ __forceinline__ void LoadWeightFragment(const float* weight,
                                                   HeadWeightFragment& fragment) {
#pragma unroll
  for (int i = 0; i < kHeadInputs / 2; ++i) {
    fragment.v[i] = LoadAs<Floats4>(weight + i * 2 * kHeadOutputs);
  }
}

// Computes a warp's task on the activations `in` and stores its sums to `partials`. On entry,
// `fragment` holds the task's first weights; on exit, the weights at `next`: each register is
// reloaded as soon as it has been used.
__device__ __forceinline__ void MultiplyTask(const HeadWarpTask& task, const float* next,
                                             const float* in, HeadWeightFragment& fragment,
                                             float* partials) {
  const float* weight = task.weight;
  const float* inputs = in + HeadInputsSize(task.first_step * kHeadInputs);
  float sums[kHeadRows][2] = {};
  if (task.k_steps == 0) LoadWeightFragment(next, fragment);
#pragma unroll 1
  for (int left = task.k_steps; left > 0; --left) {
    weight = left > 1 ? weight + kHeadInputs * kHeadOutputs : next;
#pragma unroll
    for (int i = 0; i < kHeadInputs; i += 4) {
      Floats4& w0 = fragment.v[i / 2];
      Floats4& w2 = fragment.v[i / 2 + 1];
#pragma unroll
      for (int r = 0; r < kHeadRows; ++r) {
        // Keeps the compiler from loading all rows first, for which there are no registers.
        if (r == kHeadRows / 2) __syncwarp();
        const Floats4 z = LoadAs<Floats4>(inputs + HeadInputAt(r, i));
#pragma unroll
        for (int o = 0; o < 2; ++o) {
          sums[r][o] = fmaf(z.v[0], w0.v[o], sums[r][o]);
          sums[r][o] = fmaf(z.v[1], w0.v[2 + o], sums[r][o]);
          sums[r][o] = fmaf(z.v[2], w2.v[o], sums[r][o]);
          sums[r][o] = fmaf(z.v[3], w2.v[2 + o], sums[r][o]);
        }
      }
      w0 = LoadAs<Floats4>(weight + i * kHeadOutputs);
      w2 = LoadAs<Floats4>(weight + (i + 2) * kHeadOutputs);
      // Keeps the compiler from sinking these loads below the last input.
      __syncwarp();
    }
    inputs += HeadInputsSize(kHeadInputs);
  }
  float* to = partials + WarpIndex() * kHeadPartialSize + LaneIndex() * 2;
#pragma unroll
  for (int r = 0; r < kHeadRows; ++r) {
    StoreAs<Floats2>(to + r * kHeadOutputs, {sums[r][0], sums[r][1]});
  }
}

// Adds up the partial sums of one pass: hidden = gelu(W1 z + b1), padded with zeros, or
// raw = W2 hidden + b2.
__device__ __forceinline__ void ReducePartials(const HeadKernelParams& params, int pass,
                                               char* shared) {
  const bool first_map = pass < params.maps[0].passes;
  const HeadMap& map = params.maps[first_map ? 0 : 1];
  const int first_tile = (first_map ? pass : pass - params.maps[0].passes) << map.tile_bits;
  const int row = ThreadIndex() / kHeadOutputs;
  const float* bias = (first_map ? params.shared.b1 : params.shared.b2).At(shared);
  const float* partials = params.shared.partials.At(shared) + ThreadIndex();
#pragma unroll 1
  for (int c = 0; c < map.tiles_per_pass && first_tile + c < map.output_tiles; ++c) {
    const int output = (first_tile + c) * kHeadOutputs + ThreadIndex() % kHeadOutputs;
    float sum = output < map.outputs ? bias[output] : 0.0f;
#pragma unroll 4
    for (int k = 0; k < map.k_splits; ++k)
      sum += partials[((k << map.tile_bits) + c) * kHeadPartialSize];
    if (!first_map) {
      if (output < map.outputs) params.shared.raw.At(shared)[row * map.outputs + output] = sum;
    } else if (output < params.maps[1].k_steps * kHeadInputs) {
      params.shared.hidden.At(shared)[HeadInputAt(row, output)] =
          output < map.outputs ? Gelu(sum) : 0.0f;
    }
  }
}

// Both maps in one loop, to keep the code small: instruction fetches cost latency, too. `fragment`
// holds the first weights; the second map's are loaded while sums of the first are reduced.
__device__ __forceinline__ void MultiplyHead(const HeadKernelParams& params,
                                             HeadWeightFragment& fragment, char* shared) {
  const int passes = params.maps[0].passes + params.maps[1].passes;
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
    const float* in =
        (pass < params.maps[0].passes ? params.shared.z : params.shared.hidden).At(shared);
    MultiplyTask(WarpTaskOf(params, pass), WarpTaskOf(params, pass + 1).weight, in, fragment,
                 params.shared.partials.At(shared));
    __syncthreads();
    ReducePartials(params, pass, shared);
    __syncthreads();
  }
}

// Copies b2 and the biases of the mixture to shared memory.
__device__ __forceinline__ void LoadMixtureVectors(const HeadKernelParams& params, char* shared) {
  const HeadParams& p = params.head;
#pragma unroll 1
  for (int i = kHeadThreads - 1 - ThreadIndex(); i < 3 * p.shape.components; i += kHeadThreads) {
    const int array = i / p.shape.components;
    const float* biases = array == 0   ? p.weights.mean_bias
                          : array == 1 ? p.weights.std_bias
                                       : p.weights.weight_bias;
    const float b2 = p.weights.b2[i];
    const float bias = biases[i - array * p.shape.components];
    params.shared.b2.At(shared)[i] = b2;
    params.shared.biases.At(shared)[i] = bias;
  }
}

// Copies the small vectors to shared memory. Threads start from both ends, so that no warp waits
// for two loads.
__device__ __forceinline__ void LoadHeadVectors(const HeadKernelParams& params, char* shared) {
  const HeadParams& p = params.head;
#pragma unroll 1
  for (int i = ThreadIndex(); i < max(p.shape.width, p.shape.hidden); i += kHeadThreads) {
    const float gamma = i < p.shape.width ? p.weights.gamma[i] : 0.0f;
    const float beta = i < p.shape.width ? p.weights.beta[i] : 0.0f;
    const float b1 = i < p.shape.hidden ? p.weights.b1[i] : 0.0f;
    if (i < p.shape.width) {
      StoreAs<Floats2>(params.shared.norm.At(shared) + 2 * i, {gamma, beta});
    }
    if (i < p.shape.hidden) params.shared.b1.At(shared)[i] = b1;
  }
  LoadMixtureVectors(params, shared);
}

// z = LN(x), one warp a row, padded with zeros.
__device__ __forceinline__ void NormalizeHeadRow(const HeadKernelParams& params, const float* x,
                                                 int row, char* shared) {
  const HeadParams& p = params.head;
  const float* norm = params.shared.norm.At(shared);
  float* z = params.shared.z.At(shared);
  const int padded_width = params.maps[0].k_steps * kHeadInputs;
  constexpr int kAtOnce = 4;
  const int lane = LaneIndex();
  const float count = static_cast<float>(p.shape.width);
  float sum = 0;
#pragma unroll 1
  for (int first = lane; first < padded_width; first += kAtOnce * kWarpSize) {
    float v[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kWarpSize < p.shape.width) v[i] = LoadCg<float>(x + first + i * kWarpSize);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int c = first + i * kWarpSize;
      if (c < padded_width) z[HeadInputAt(row, c)] = v[i];
      sum += v[i];
    }
  }
  const float mean = SumOverLanes<kWarpSize>(sum) / count;
  float squares = 0;
#pragma unroll 1
  for (int first = lane; first < p.shape.width; first += kAtOnce * kWarpSize) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int c = first + i * kWarpSize;
      const float centered = c < p.shape.width ? z[HeadInputAt(row, c)] - mean : 0.0f;
      squares = fmaf(centered, centered, squares);
    }
  }
  const float scale = 1.0f / sqrtf(SumOverLanes<kWarpSize>(squares) / count + p.epsilon);
#pragma unroll 1
  for (int first = lane; first < p.shape.width; first += kAtOnce * kWarpSize) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int c = first + i * kWarpSize;
      if (c < p.shape.width) {
        const Floats2 n = LoadAs<Floats2>(norm + 2 * c);
        float& to = z[HeadInputAt(row, c)];
        to = fmaf((to - mean) * scale, n.v[0], n.v[1]);
      }
    }
  }
}

// Index of a path's value at the tile's position in an array [positions, paths] that begins at
// position `first`.
__device__ __forceinline__ int64_t PathAt(const PathTile& tile, int path, int first) {
  return static_cast<int64_t>(tile.position - first) * tile.paths + path;
}

// Draws or scores the value of one path and stores the outputs. `observed`: the value to score
// unless the tile draws.
__device__ __forceinline__ void EmitPath(const HeadParams& p, const RowMixture& mixture,
                                         double total, const StepDraw& draw, float observed,
                                         const PathTile& tile, int path) {
  const float value =
      tile.draw != 0 ? static_cast<float>(DrawValue(p, mixture, total, draw)) : observed;
  const double log_density = LogDensity(p, mixture, value);
  if (LaneIndex() != 0) return;
  const int64_t emitted = PathAt(tile, path, tile.first_emitted);
  if (tile.draw != 0) tile.values[PathAt(tile, path, 0)] = value;
  if (tile.emitted_values != nullptr) tile.emitted_values[emitted] = value;
  tile.emitted_densities[emitted] = log_density;
}

// Computes the mixtures of row set `set` of a tile and stores the outputs of its phase. Two warps
// share a row: float64 is slow, and one computes weights while the other computes components.
__device__ __forceinline__ void EmitRows(const HeadKernelParams& params, int tile_index, int set,
                                         char* shared) {
  const HeadParams& p = params.head;
  const int row = WarpIndex() % kHeadRows;
  const bool of_weights = WarpIndex() < kHeadRows;
  const bool of_paths = p.paths != nullptr;
  const float* raw = params.shared.raw.At(shared) + row * 3 * p.shape.components;
  const float* biases = params.shared.biases.At(shared);
  const PathTile& tile = *params.shared.paths.At(shared);
  double* arrays = params.shared.mixture.At(shared) + row * kHeadMixtureArrays * p.shape.components;
  const RowMixture mixture = {arrays, arrays + p.shape.components, arrays + 2 * p.shape.components,
                              arrays + 3 * p.shape.components, arrays + 4 * p.shape.components};
  const int path = set * kGroupPaths + row;
  const bool has_path = of_paths && path < tile.paths;
  float observed = 0;
  double total = 0;
  if (of_weights) {
    if (has_path && tile.draw == 0) observed = LoadCg<float>(tile.values + PathAt(tile, path, 0));
    total = ComputeWeights(p, raw, biases, mixture);
  } else {
    ComputeComponents(p, raw, biases, mixture);
  }
  __syncthreads();
  if (of_weights) {
    if (has_path) {
      EmitPath(p, mixture, total, params.shared.draws.At(shared)[row], observed, tile, path);
    }
  } else if (!of_paths) {
    const int64_t to = static_cast<int64_t>(tile_index) * kTileRows + set * kHeadRows + row;
    StoreMixture(p, mixture, p.mixtures + to * 3 * p.shape.components);
  } else if (has_path && tile.emitted_mixtures != nullptr) {
    const int64_t to = PathAt(tile, path, tile.first_emitted);
    StoreMixture(p, mixture, tile.emitted_mixtures + to * 3 * p.shape.components);
  }
}

// The random numbers of a block's rows: one lane a row, by one warp while the others multiply.
__device__ __forceinline__ void ComputeDraws(const HeadKernelParams& params, int set,
                                             char* shared) {
  const int lane = LaneIndex();
  const PathTile& tile = *params.shared.paths.At(shared);
  params.shared.draws.At(shared)[lane] = StepDrawOf(
      tile.seed, tile.first_path + set * kGroupPaths + lane, static_cast<uint32_t>(tile.position));
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_HEAD_ROWS_CUH_
