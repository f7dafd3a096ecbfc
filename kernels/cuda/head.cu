#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/head.h"
#include "kernels/cuda/head_layout.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/prepare.h"
#include "kernels/step_draw.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = kHeadRows;  // at the end, a warp has a row
constexpr int kThreads = kWarps * kWarp;
constexpr int kRows = kHeadRows;
constexpr int kParts = kHeadParts;
constexpr int kOutputs = kHeadOutputs;
static_assert(kThreads == kParts * kOutputs && kRows == kGroupPaths);

struct KernelParams {
  HeadParams head;
  HeadLayout shared;
};

// z = LN(x), a warp a row.
__device__ __forceinline__ void NormalizeRow(const HeadParams& p, const float* x, float* z) {
  const int lane = threadIdx.x % kWarp;
  const float count = static_cast<float>(p.width);
  float sum = 0;
#pragma unroll 4
  for (int c = lane; c < p.width; c += kWarp) {
    z[c] = LoadFresh<float>(x + c);
    sum += z[c];
  }
  const float mean = SumOverLanes<kWarp>(sum) / count;
  float squares = 0;
  for (int c = lane; c < p.width; c += kWarp) squares = fmaf(z[c] - mean, z[c] - mean, squares);
  const float scale = 1.0f / sqrtf(SumOverLanes<kWarp>(squares) / count + p.epsilon);
  for (int c = lane; c < p.width; c += kWarp) {
    z[c] = fmaf((z[c] - mean) * scale, p.weights.gamma[c], p.weights.beta[c]);
  }
}

// out[r] += sum of in[r][i] weight[i][column] over inputs [first, end). Input rows lie in_stride
// apart, in shared memory.
__device__ __forceinline__ void AddProducts(const float* in, int in_stride, const float* weight,
                                            int outputs, int column, int first, int end,
                                            float (&out)[kRows]) {
  int i = first;
#pragma unroll 8
  for (; i + 4 <= end; i += 4) {
    float w[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) w[k] = weight[static_cast<int64_t>(i + k) * outputs + column];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Floats4 z = LoadAs<Floats4>(in + r * in_stride + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) out[r] = fmaf(z.v[k], w[k], out[r]);
    }
  }
  for (; i < end; ++i) {
    const float w = weight[static_cast<int64_t>(i) * outputs + column];
#pragma unroll
    for (int r = 0; r < kRows; ++r) out[r] = fmaf(in[r * in_stride + i], w, out[r]);
  }
}

// hidden = gelu(W1 z + b1), a thread an output of all rows.
__device__ __forceinline__ void FirstMap(const HeadParams& p, const float* z, float* hidden,
                                         int hidden_stride) {
  for (int column = threadIdx.x; column < p.hidden; column += kThreads) {
    float sums[kRows] = {};
    AddProducts(z, p.width, p.weights.w1, p.hidden, column, 0, p.width, sums);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      hidden[r * hidden_stride + column] = Gelu(sums[r] + p.weights.b1[column]);
    }
  }
  __syncthreads();
}

// raw = W2 hidden + b2, a thread an output and a quarter of the inputs.
__device__ __forceinline__ void SecondMap(const HeadParams& p, const float* hidden,
                                          int hidden_stride, float* parts, float* raw) {
  const int outputs = 3 * p.components;
  const int part = threadIdx.x / kOutputs;
  const int part_inputs = (p.hidden + 4 * kParts - 1) / (4 * kParts) * 4;
  for (int first = 0; first < outputs; first += kOutputs) {
    const int column = first + threadIdx.x % kOutputs;
    float sums[kRows] = {};
    if (column < outputs) {
      AddProducts(hidden, hidden_stride, p.weights.w2, outputs, column,
                  min(part * part_inputs, p.hidden), min((part + 1) * part_inputs, p.hidden), sums);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      parts[(part * kRows + r) * kOutputs + threadIdx.x % kOutputs] = sums[r];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kOutputs; i += kThreads) {
      const int output = first + i % kOutputs;
      if (output < outputs) {
        float sum = p.weights.b2[output];
        for (int k = 0; k < kParts; ++k) sum += parts[k * kRows * kOutputs + i];
        raw[i / kOutputs * outputs + output] = sum;
      }
    }
    __syncthreads();
  }
}

// One row's mixture in shared memory, [M] each.
struct RowMixture {
  double* mean;
  double* std;
  double* log_weight;
  double* weight;  // exp(log_weight)
};

__device__ __forceinline__ void MakeMixture(const HeadParams& p, const float* raw,
                                            const RowMixture& mixture) {
  const int lane = threadIdx.x % kWarp;
  double largest = -INFINITY;
  for (int j = lane; j < p.components; j += kWarp) {
    mixture.mean[j] = static_cast<double>(raw[3 * j]) + p.weights.mean_bias[j];
    const double s = static_cast<double>(raw[3 * j + 1]) + p.weights.std_bias[j];
    // Beyond 40, exp(-s) is lost against s.
    const double softplus = s > 40 ? s : log1p(exp(s));
    mixture.std[j] = (softplus < p.std_max ? softplus : p.std_max) + p.std_min;
    const double w = static_cast<double>(raw[3 * j + 2]) + p.weights.weight_bias[j];
    mixture.log_weight[j] = w;
    largest = w > largest ? w : largest;
  }
  largest = MaxOverLanes<kWarp>(largest);
  double sum = 0;
  for (int j = lane; j < p.components; j += kWarp) sum += exp(mixture.log_weight[j] - largest);
  const double log_sum = log(SumOverLanes<kWarp>(sum));
  for (int j = lane; j < p.components; j += kWarp) {
    const double log_weight = mixture.log_weight[j] - largest - log_sum;
    mixture.log_weight[j] = log_weight;
    mixture.weight[j] = exp(log_weight);
  }
  __syncwarp();
}

// As MixtureDraw of kernels/mixture_head.h; every lane computes the same.
__device__ __forceinline__ double Draw(const HeadParams& p, const RowMixture& mixture,
                                       const StepDraw& draw) {
  double total = 0;
  for (int j = 0; j < p.components; ++j) total += mixture.weight[j];
  const double threshold = draw.uniform * total;
  double cumulative = 0;
  int chosen = 0;
  for (int j = 0; j < p.components; ++j) {
    if (mixture.weight[j] > 0) chosen = j;
    cumulative += mixture.weight[j];
    if (cumulative > threshold) break;
  }
  return mixture.mean[chosen] + mixture.std[chosen] * draw.normal;
}

__device__ __forceinline__ double LogDensity(const HeadParams& p, const RowMixture& mixture,
                                             double y) {
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
  const int lane = threadIdx.x % kWarp;
  const auto term = [&](int j) {
    const double z = (y - mixture.mean[j]) / mixture.std[j];
    return mixture.log_weight[j] - 0.5 * z * z - log(mixture.std[j]) - kHalfLogTwoPi;
  };
  double largest = -INFINITY;
  for (int j = lane; j < p.components; j += kWarp) {
    const double value = term(j);
    largest = value > largest ? value : largest;
  }
  largest = MaxOverLanes<kWarp>(largest);
  if (largest == -INFINITY) return largest;
  double sum = 0;
  for (int j = lane; j < p.components; j += kWarp) sum += exp(term(j) - largest);
  return largest + log(SumOverLanes<kWarp>(sum));
}

__device__ __forceinline__ void StoreMixture(const HeadParams& p, const RowMixture& mixture,
                                             float* to) {
  for (int j = threadIdx.x % kWarp; j < p.components; j += kWarp) {
    to[j] = static_cast<float>(mixture.mean[j]);
    to[p.components + j] = static_cast<float>(mixture.std[j]);
    to[2 * p.components + j] = static_cast<float>(mixture.log_weight[j]);
  }
}

// What becomes of the mixture of one path of a tile.
__device__ __forceinline__ void EmitPath(const HeadParams& p, const RowMixture& mixture,
                                         const PathTile& tile, int path) {
  const int64_t at = static_cast<int64_t>(tile.place) * tile.paths + path;
  float value = 0;
  if (tile.draw != 0) {
    const StepDraw draw =
        StepDrawOf(tile.seed, tile.first_path + path, static_cast<uint32_t>(tile.place));
    value = static_cast<float>(Draw(p, mixture, draw));
  } else {
    value = LoadFresh<float>(tile.values + at);
  }
  const double log_density = LogDensity(p, mixture, value);
  const int64_t emitted = at - static_cast<int64_t>(tile.first_emitted) * tile.paths;
  if (threadIdx.x % kWarp == 0) {
    if (tile.draw != 0) tile.values[at] = value;
    if (tile.emitted_values != nullptr) tile.emitted_values[emitted] = value;
    tile.emitted_densities[emitted] = log_density;
  }
  if (tile.emitted_mixtures != nullptr) {
    StoreMixture(p, mixture, tile.emitted_mixtures + emitted * 3 * p.components);
  }
}

// Grid: x sets of 8 rows: the targets of each group of paths, or all rows of a tile that predicts.
// A block owns 8 rows; the maps go over outputs, the rest a warp a row.
//
// -inf: the largest of M >= 1 finite weights is finite; a density may be -inf, and is then given
// back as it is.
__global__ void __launch_bounds__(kThreads)
    HeadKernel(const __grid_constant__ KernelParams params) {
  LetNextBegin();
  WaitForPrevious();
  const HeadParams& p = params.head;
  const bool of_paths = p.paths != nullptr;
  const int sets = of_paths ? kTileGroups : kTileRows / kRows;
  const int tile_index = blockIdx.x / sets;
  const int set = blockIdx.x % sets;
  const int first_row = set * (of_paths ? kGroupRows : kRows);  // of the tile
  const int groups = LoadFresh<int32_t>(&p.tiles[tile_index].groups);
  if (first_row >= groups * kGroupRows) return;
  float* shared = reinterpret_cast<float*>(Shared());
  const int warp = threadIdx.x / kWarp;
  const int64_t row = static_cast<int64_t>(tile_index) * kTileRows + first_row + warp;
  const int hidden_stride = (p.hidden + 3) / 4 * 4;

  NormalizeRow(p, p.x + row * p.width, shared + params.shared.z + warp * p.width);
  __syncthreads();
  FirstMap(p, shared + params.shared.z, shared + params.shared.hidden, hidden_stride);
  SecondMap(p, shared + params.shared.hidden, hidden_stride, shared + params.shared.parts,
            shared + params.shared.raw);

  double* of_row =
      reinterpret_cast<double*>(shared + params.shared.mixture) + warp * 4 * p.components;
  const RowMixture mixture = {of_row, of_row + p.components, of_row + 2 * p.components,
                              of_row + 3 * p.components};
  MakeMixture(p, shared + params.shared.raw + warp * 3 * p.components, mixture);
  if (!of_paths) {
    StoreMixture(p, mixture, p.mixtures + row * 3 * p.components);
    return;
  }
  const PathTile paths = LoadFresh<PathTile>(p.paths + tile_index);
  const int path = set * kGroupPaths + warp;
  if (path < paths.paths) EmitPath(p, mixture, paths, path);
}

// Grid: x tiles, one thread each.
__global__ void __launch_bounds__(kThreads)
    NextPlaceKernel(const __grid_constant__ NextPlaceParams p) {
  LetNextBegin();
  WaitForPrevious();
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= p.tile_count) return;
  Tile& tile = p.tiles[index];
  PathTile& paths = p.paths[index];
  if (LoadFresh<int32_t>(&tile.groups) == 0) return;
  const int place = LoadFresh<int32_t>(&paths.place);
  const int steps_left = LoadFresh<int32_t>(&paths.steps_left) - 1;
  paths.token_place = place;
  paths.place = place + 1;
  paths.steps_left = steps_left;
  tile.append_place = place;
  tile.visible_target = place + 1;
  tile.visible_buffer = place + 1;
  if (steps_left == 0 || place + 1 == LoadFresh<int32_t>(&paths.targets)) tile.groups = 0;
}

}  // namespace

ErrorCode PrepareHead(int shared_bytes) {
  const ErrorCode error = PrepareKernel(&HeadKernel, shared_bytes);
  return error != 0 ? error : PrepareKernel(&NextPlaceKernel, shared_bytes);
}

ErrorCode LaunchHead(const HeadParams& params, Stream stream) {
  const KernelParams kernel_params = {params, HeadLayoutOf(params)};
  const int sets = params.paths != nullptr ? kTileGroups : kTileRows / kRows;
  const LaunchShape shape = {
      .blocks_x = params.tile_count * sets,
      .threads = kThreads,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return Launch(&HeadKernel, shape, stream, kernel_params);
}

ErrorCode LaunchNextPlace(const NextPlaceParams& params, Stream stream) {
  const int blocks = static_cast<int>(CeilDiv(params.tile_count, kThreads));
  return Launch(&NextPlaceKernel, {.blocks_x = blocks, .threads = kThreads}, stream, params);
}

}  // namespace chorale::kernels::cuda
