// What a block of the head's kernel does to the targets of one group of paths, or to 8 other rows.
#ifndef CHORALE_KERNELS_CUDA_HEAD_HEAD_STAGES_CUH_
#define CHORALE_KERNELS_CUDA_HEAD_HEAD_STAGES_CUH_

#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/ops/step_draw.h"

namespace chorale::kernels::cuda {

inline constexpr int kHeadThreads = kHeadWarps * kWarpSize;
inline constexpr int kHeadPartSize = kHeadRows * kHeadOutputs;
static_assert(kHeadThreads == kHeadPartSize && kHeadRows == kGroupPaths);
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
          HeadLayoutOf(params),
          {HeadMapOf(w.w1, w.b1, params.hidden, params.width),
           HeadMapOf(w.w2, w.b2, 3 * params.components, params.hidden)}};
}

// What a warp does in one pass over columns of a map: a column, and a part of the inputs.
struct HeadShare {
  const float* weight;  // of the lane; of another share where there is none, to be loaded in vain
  int first;            // batch of inputs
  int batches;
};

// Passes of both maps are counted on.
__device__ __forceinline__ HeadShare ShareOf(const HeadKernelParams& params, int pass) {
  const int before = params.maps[0].passes;
  const HeadMap& map = params.maps[pass < before ? 0 : 1];
  const int first_column = (pass < before ? pass : pass - before) << map.column_bits;
  const int warp = WarpIndex();
  const int part = warp >> map.column_bits;
  const int column = first_column + (warp & (map.columns_at_once - 1));
  const int first = (part * map.batches) >> map.part_bits;
  const int end = ((part + 1) * map.batches) >> map.part_bits;
  HeadShare share = {map.weight + LaneIndex() * 4, first, 0};
  if (column < map.columns && first < end) {
    share.weight += (column * map.batches + first) * kHeadInputs * kHeadOutputs;
    share.batches = end - first;
  }
  return share;
}

// A lane's weights of kHeadInputs inputs: of two inputs and two outputs each. All warps' together
// are 32 KB on their way, about what keeps the level-two cache busy; more spills registers when two
// blocks are to share a multiprocessor.
struct HeadBatch {
  Floats4 v[kHeadInputs / 2];
};

__device__ __forceinline__ void LoadBatch(const float* weight, HeadBatch& batch) {
#pragma unroll
  for (int i = 0; i < kHeadInputs / 2; ++i) {
    batch.v[i] = LoadAs<Floats4>(weight + i * 2 * kHeadOutputs);
  }
}

// A warp's share of a map of the inputs `in`, which goes to `parts`. `batch` holds the first
// weights, and in the end those of the share behind: where one has been multiplied with, the next
// is asked for.
__device__ __forceinline__ void MultiplyShare(const HeadShare& share, const float* behind,
                                              const float* in, HeadBatch& batch, float* parts) {
  const float* weight = share.weight;
  const float* inputs = in + HeadInputsSize(share.first * kHeadInputs);
  float sums[kHeadRows][2] = {};
  if (share.batches == 0) LoadBatch(behind, batch);
#pragma unroll 1
  for (int left = share.batches; left > 0; --left) {
    weight = left > 1 ? weight + kHeadInputs * kHeadOutputs : behind;
#pragma unroll
    for (int i = 0; i < kHeadInputs; i += 4) {
      Floats4& w0 = batch.v[i / 2];
      Floats4& w2 = batch.v[i / 2 + 1];
#pragma unroll
      for (int r = 0; r < kHeadRows; ++r) {
        if (r == kHeadRows / 2) __syncwarp();  // or it asks for all rows, and has no registers left
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
      // Or the compiler asks for weights only when it is done with all inputs.
      __syncwarp();
    }
    inputs += HeadInputsSize(kHeadInputs);
  }
  float* to = parts + WarpIndex() * kHeadPartSize + LaneIndex() * 2;
#pragma unroll
  for (int r = 0; r < kHeadRows; ++r) {
    StoreAs<Floats2>(to + r * kHeadOutputs, {sums[r][0], sums[r][1]});
  }
}

// Puts the parts of one pass together: hidden = gelu(W1 z + b1), with zeros behind it, or
// raw = W2 hidden + b2.
__device__ __forceinline__ void AddParts(const HeadKernelParams& params, int pass, float* shared) {
  const bool first_map = pass < params.maps[0].passes;
  const HeadMap& map = params.maps[first_map ? 0 : 1];
  const int first_column = (first_map ? pass : pass - params.maps[0].passes) << map.column_bits;
  const int row = ThreadIndex() / kHeadOutputs;
  const float* bias = shared + (first_map ? params.shared.b1 : params.shared.b2);
  const float* parts = shared + params.shared.parts + ThreadIndex();
#pragma unroll 1
  for (int c = 0; c < map.columns_at_once && first_column + c < map.columns; ++c) {
    const int output = (first_column + c) * kHeadOutputs + ThreadIndex() % kHeadOutputs;
    float sum = output < map.outputs ? bias[output] : 0.0f;
#pragma unroll 4
    for (int k = 0; k < map.parts; ++k) sum += parts[((k << map.column_bits) + c) * kHeadPartSize];
    if (!first_map) {
      if (output < map.outputs) shared[params.shared.raw + row * map.outputs + output] = sum;
    } else if (output < params.maps[1].batches * kHeadInputs) {
      shared[params.shared.hidden + HeadInputAt(row, output)] =
          output < map.outputs ? Gelu(sum) : 0.0f;
    }
  }
}

// Both maps, in one loop: a kernel waits for its instructions, too. `batch` holds the first
// weights; those of the second map are on their way while sums of the first are put together.
__device__ __forceinline__ void MultiplyHead(const HeadKernelParams& params, HeadBatch& batch,
                                             float* shared) {
  const int passes = params.maps[0].passes + params.maps[1].passes;
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
    const float* in =
        shared + (pass < params.maps[0].passes ? params.shared.z : params.shared.hidden);
    MultiplyShare(ShareOf(params, pass), ShareOf(params, pass + 1).weight, in, batch,
                  shared + params.shared.parts);
    __syncthreads();
    AddParts(params, pass, shared);
    __syncthreads();
  }
}

// Small vectors, asked for early; by threads from both ends, so that no warp waits twice.
__device__ __forceinline__ void KeepHeadVectors(const HeadKernelParams& params, float* shared) {
  const HeadParams& p = params.head;
#pragma unroll 1
  for (int i = ThreadIndex(); i < max(p.width, p.hidden); i += kHeadThreads) {
    const float gamma = i < p.width ? p.weights.gamma[i] : 0.0f;
    const float beta = i < p.width ? p.weights.beta[i] : 0.0f;
    const float b1 = i < p.hidden ? p.weights.b1[i] : 0.0f;
    if (i < p.width) {
      StoreAs<Floats2>(shared + params.shared.norm + 2 * i, {gamma, beta});
    }
    if (i < p.hidden) shared[params.shared.b1 + i] = b1;
  }
#pragma unroll 1
  for (int i = kHeadThreads - 1 - ThreadIndex(); i < 3 * p.components; i += kHeadThreads) {
    const int array = i / p.components;
    const float* biases = array == 0   ? p.weights.mean_bias
                          : array == 1 ? p.weights.std_bias
                                       : p.weights.weight_bias;
    const float b2 = p.weights.b2[i];
    const float bias = biases[i - array * p.components];
    shared[params.shared.b2 + i] = b2;
    shared[params.shared.biases + i] = bias;
  }
}

// z = LN(x), a warp a row; zeros behind it.
__device__ __forceinline__ void NormalizeHeadRow(const HeadKernelParams& params, const float* x,
                                                 int row, float* shared) {
  const HeadParams& p = params.head;
  const float* norm = shared + params.shared.norm;
  float* z = shared + params.shared.z;
  const int padded_width = params.maps[0].batches * kHeadInputs;
  constexpr int kAtOnce = 4;
  const int lane = LaneIndex();
  const float count = static_cast<float>(p.width);
  float sum = 0;
#pragma unroll 1
  for (int first = lane; first < padded_width; first += kAtOnce * kWarpSize) {
    float v[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kWarpSize < p.width) v[i] = LoadCg<float>(x + first + i * kWarpSize);
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
  for (int first = lane; first < p.width; first += kAtOnce * kWarpSize) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int c = first + i * kWarpSize;
      const float centered = c < p.width ? z[HeadInputAt(row, c)] - mean : 0.0f;
      squares = fmaf(centered, centered, squares);
    }
  }
  const float scale = 1.0f / sqrtf(SumOverLanes<kWarpSize>(squares) / count + p.epsilon);
#pragma unroll 1
  for (int first = lane; first < p.width; first += kAtOnce * kWarpSize) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int c = first + i * kWarpSize;
      if (c < p.width) {
        const Floats2 n = LoadAs<Floats2>(norm + 2 * c);
        float& to = z[HeadInputAt(row, c)];
        to = fmaf((to - mean) * scale, n.v[0], n.v[1]);
      }
    }
  }
}

// One row's mixture in shared memory, [M] each.
struct RowMixture {
  double* mean;
  double* std;
  double* log_scale;  // log(std sqrt(2 pi))
  double* log_weight;
  // Up to and with a component, weights that are to be divided by their sum; -1 where a component
  // has none. Then what each component adds to a density.
  double* cumulative;
};

__device__ __forceinline__ void MakeComponents(const HeadParams& p, const float* raw,
                                               const float* biases, const RowMixture& mixture) {
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
#pragma unroll 1
  for (int j = LaneIndex(); j < p.components; j += kWarpSize) {
    mixture.mean[j] = static_cast<double>(raw[3 * j]) + biases[j];
    const double s = static_cast<double>(raw[3 * j + 1]) + biases[p.components + j];
    // Beyond 40, exp(-s) is lost against s.
    const double softplus = s > 40 ? s : log1p(exp(s));
    const double std = (softplus < p.std_max ? softplus : p.std_max) + p.std_min;
    mixture.std[j] = std;
    mixture.log_scale[j] = log(std) + kHalfLogTwoPi;
  }
}

// The sum over the lanes up to this one.
__device__ __forceinline__ double SumUpToLane(double value) {
  const int lane = LaneIndex();
#pragma unroll
  for (int lanes = 1; lanes < kWarpSize; lanes *= 2) {
    const double other = __shfl_sync(kAllLanes, value, max(lane - lanes, 0));
    if (lane >= lanes) value += other;
  }
  return value;
}

// Returns the sum that the cumulative weights are to be divided by.
__device__ __forceinline__ double MakeWeights(const HeadParams& p, const float* raw,
                                              const float* biases, const RowMixture& mixture) {
  const int lane = LaneIndex();
  double largest = -INFINITY;
#pragma unroll 1
  for (int j = lane; j < p.components; j += kWarpSize) {
    const double w = static_cast<double>(raw[3 * j + 2]) + biases[2 * p.components + j];
    mixture.log_weight[j] = w;
    largest = w > largest ? w : largest;
  }
  largest = MaxOverLanes<kWarpSize>(largest);
  double total = 0;
#pragma unroll 1
  for (int first = 0; first < p.components; first += kWarpSize) {
    const int j = first + lane;
    const double weight = j < p.components ? exp(mixture.log_weight[j] - largest) : 0;
    const double sum = total + SumUpToLane(weight);
    if (j < p.components) mixture.cumulative[j] = weight > 0 ? sum : -1;
    total = __shfl_sync(kAllLanes, sum, kWarpSize - 1);
  }
  const double log_sum = log(total);
#pragma unroll 1
  for (int j = lane; j < p.components; j += kWarpSize) {
    mixture.log_weight[j] = mixture.log_weight[j] - largest - log_sum;
  }
  return total;
}

// As MixtureDraw of kernels/ops/mixture_head.h; all lanes get the same. What is summed up in
// another order may miss the threshold by rounding: then it is the last component that has a
// weight.
__device__ __forceinline__ double DrawValue(const HeadParams& p, const RowMixture& mixture,
                                            double total, const StepDraw& draw) {
  const double threshold = draw.uniform * total;
  int chosen = 0;
#pragma unroll 1
  for (int first = 0; first < p.components; first += kWarpSize) {
    const int j = first + LaneIndex();
    const double cumulative = j < p.components ? mixture.cumulative[j] : -1;
    const uint32_t beyond = __ballot_sync(kAllLanes, cumulative > threshold);
    const uint32_t weighty = __ballot_sync(kAllLanes, cumulative > 0);
    if (beyond != 0) {
      chosen = first + __ffs(beyond) - 1;
      break;
    }
    if (weighty != 0) chosen = first + kWarpSize - 1 - __clz(weighty);
  }
  return mixture.mean[chosen] + mixture.std[chosen] * draw.normal;
}

// Leaves the terms where the cumulative weights were.
__device__ __forceinline__ double LogDensity(const HeadParams& p, const RowMixture& mixture,
                                             double y) {
  const int lane = LaneIndex();
  double largest = -INFINITY;
#pragma unroll 1
  for (int j = lane; j < p.components; j += kWarpSize) {
    const double z = (y - mixture.mean[j]) / mixture.std[j];
    const double term = mixture.log_weight[j] - 0.5 * z * z - mixture.log_scale[j];
    mixture.cumulative[j] = term;
    largest = term > largest ? term : largest;
  }
  largest = MaxOverLanes<kWarpSize>(largest);
  if (largest == -INFINITY) return largest;
  double sum = 0;
#pragma unroll 1
  for (int j = lane; j < p.components; j += kWarpSize) sum += exp(mixture.cumulative[j] - largest);
  return largest + log(SumOverLanes<kWarpSize>(sum));
}

__device__ __forceinline__ void StoreMixture(const HeadParams& p, const RowMixture& mixture,
                                             float* to) {
#pragma unroll 1
  for (int j = LaneIndex(); j < p.components; j += kWarpSize) {
    to[j] = static_cast<float>(mixture.mean[j]);
    to[p.components + j] = static_cast<float>(mixture.std[j]);
    to[2 * p.components + j] = static_cast<float>(mixture.log_weight[j]);
  }
}

// Where a path's value at the tile's position lies in [positions, paths], from position `first` on.
__device__ __forceinline__ int64_t PathAt(const PathTile& tile, int path, int first) {
  return static_cast<int64_t>(tile.position - first) * tile.paths + path;
}

// What becomes of the mixture of one path of a tile. `given`: its value, unless it is drawn.
__device__ __forceinline__ void EmitPath(const HeadParams& p, const RowMixture& mixture,
                                         double total, const StepDraw& draw, float given,
                                         const PathTile& tile, int path) {
  const float value =
      tile.draw != 0 ? static_cast<float>(DrawValue(p, mixture, total, draw)) : given;
  const double log_density = LogDensity(p, mixture, value);
  if (LaneIndex() != 0) return;
  const int64_t emitted = PathAt(tile, path, tile.first_emitted);
  if (tile.draw != 0) tile.values[PathAt(tile, path, 0)] = value;
  if (tile.emitted_values != nullptr) tile.emitted_values[emitted] = value;
  tile.emitted_densities[emitted] = log_density;
}

// Mixtures of 8 rows, set `set` of a tile, and what becomes of them. Two warps share a row: what is
// computed in float64 takes long, and half of it does not need the other half.
__device__ __forceinline__ void EmitRows(const HeadKernelParams& params, int tile_index, int set,
                                         float* shared) {
  const HeadParams& p = params.head;
  const int row = WarpIndex() % kHeadRows;
  const bool of_weights = WarpIndex() < kHeadRows;
  const bool of_paths = p.paths != nullptr;
  const float* raw = shared + params.shared.raw + row * 3 * p.components;
  const float* biases = shared + params.shared.biases;
  const PathTile& tile = *reinterpret_cast<const PathTile*>(shared + params.shared.paths);
  double* arrays = reinterpret_cast<double*>(shared + params.shared.mixture) +
                   row * kHeadMixtureArrays * p.components;
  const RowMixture mixture = {arrays, arrays + p.components, arrays + 2 * p.components,
                              arrays + 3 * p.components, arrays + 4 * p.components};
  const int path = set * kGroupPaths + row;
  const bool has_path = of_paths && path < tile.paths;
  float given = 0;
  double total = 0;
  if (of_weights) {
    if (has_path && tile.draw == 0) given = LoadCg<float>(tile.values + PathAt(tile, path, 0));
    total = MakeWeights(p, raw, biases, mixture);
  } else {
    MakeComponents(p, raw, biases, mixture);
  }
  __syncthreads();
  if (of_weights) {
    const auto* draws = reinterpret_cast<const StepDraw*>(shared + params.shared.draws);
    if (has_path) EmitPath(p, mixture, total, draws[row], given, tile, path);
  } else if (!of_paths) {
    const int64_t to = static_cast<int64_t>(tile_index) * kTileRows + set * kHeadRows + row;
    StoreMixture(p, mixture, p.mixtures + to * 3 * p.components);
  } else if (has_path && tile.emitted_mixtures != nullptr) {
    const int64_t to = PathAt(tile, path, tile.first_emitted);
    StoreMixture(p, mixture, tile.emitted_mixtures + to * 3 * p.components);
  }
}

// The first lanes of one warp, one a row, while other warps multiply: what the rows' draws are made
// from.
__device__ __forceinline__ void MakeDraws(const HeadKernelParams& params, int set, float* shared) {
  const int lane = LaneIndex();
  const PathTile& tile = *reinterpret_cast<const PathTile*>(shared + params.shared.paths);
  reinterpret_cast<StepDraw*>(shared + params.shared.draws)[lane] = StepDrawOf(
      tile.seed, tile.first_path + set * kGroupPaths + lane, static_cast<uint32_t>(tile.position));
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_HEAD_STAGES_CUH_
