// Speed of the CPU kernels on one core, as GFLOP/s and as a share of the measured multiply-add
// peak. Every benchmark first checks the kernel against its float64 reference. The operations
// counted are those of the definition: 2 in out per row of a linear map (an activation counts
// nothing), 4 Dh per query head and key of attention (the exponentials count nothing).
//
//   kernel_bench --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/target.h"
#include "kernels/ops/append_kv.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/mixture_head.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/shared_context_attention.h"
#include "tests/bench/fma_peak.h"
#include "tests/kernels/reference/reference.h"

namespace chorale::kernels {
namespace {

// Tensors start on a cache line, as those of the engine's pools do.
template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  T* allocate(size_t n) {
    return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{64}); }
  bool operator==(const CacheLineAllocator&) const { return true; }
};
using Tensor = std::vector<float, CacheLineAllocator<float>>;

Tensor RandomTensor(int64_t n, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Tensor tensor(n);
  for (float& x : tensor) x = normal(engine);
  return tensor;
}

// The largest |actual - expected|, infinity for NaN.
double LargestError(const Tensor& actual, const Tensor& expected) {
  double largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    largest = error <= largest ? largest : (std::isnan(error) ? HUGE_VAL : error);
  }
  return largest;
}

void Report(benchmark::State& state, double operations) {
  using benchmark::Counter;
  const double total = operations * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = Counter(total * 1e-9, Counter::kIsRate);
  state.counters["share"] = Counter(total / MeasuredFmaPeak(), Counter::kIsRate);
}

void BM_Linear(benchmark::State& state, Activation activation) {
  const int64_t rows = state.range(0);
  const int64_t in = state.range(1);
  const int64_t out = state.range(2);
  const Tensor x = RandomTensor(rows * in, 1);
  const Tensor weight = RandomTensor(out * in, 2);
  const Tensor bias = RandomTensor(out, 3);
  Tensor packed(PackedLinearSize(out, in));
  PackLinearWeight(weight.data(), out, in, packed.data());
  Tensor expected(rows * out, NAN);
  Tensor y(rows * out, NAN);
  LinearParams p;
  p.x = x.data();
  p.weight = packed.data();
  p.bias = bias.data();
  p.rows = rows;
  p.in = p.x_stride = in;
  p.out = p.y_stride = out;
  p.activation = activation;
  p.y = expected.data();
  reference::Linear(p);
  p.y = y.data();
  Linear(p);
  if (const double error = LargestError(y, expected); !(error < 1e-4)) {
    state.SkipWithError(("wrong result, error " + std::to_string(error)).c_str());
    return;
  }
  for (auto _ : state) {
    Linear(p);
    benchmark::ClobberMemory();
  }
  Report(state, 2.0 * rows * in * out);
}

// One decode step of 32 paths with two rows each, all of which see the whole buffer of 16 keys.
void BM_Attention(benchmark::State& state) {
  const int64_t rows = 64;
  const int64_t heads = 4;
  const int64_t head_dim = state.range(2);
  const int64_t context_rows = state.range(0);
  const int64_t visible = state.range(1);
  const int64_t capacity = 32;
  const int64_t width = heads * head_dim;
  const Tensor q = RandomTensor(rows * width, 1);
  const Tensor keys = RandomTensor(heads * PackedKeysSize(context_rows, head_dim), 2);
  const Tensor values = RandomTensor(heads * ValuesSize(context_rows, head_dim), 3);
  const int64_t path_stride = LayerKvSize(capacity, heads, head_dim);
  const Tensor buffers = RandomTensor(rows / 2 * path_stride, 4);
  std::vector<int32_t> row_path;
  for (int32_t row = 0; row < rows; ++row) row_path.push_back(row / 2);
  const std::vector<int32_t> row_visible(rows, static_cast<int32_t>(visible));
  Tensor expected(rows * width, NAN);
  Tensor out(rows * width, NAN);
  SharedContextAttentionParams p;
  p.q = q.data();
  p.context_keys = keys.data();
  p.context_values = values.data();
  if (visible > 0) {
    p.buffer_keys = buffers.data();
    p.buffer_values = buffers.data() + heads * PackedKeysSize(capacity, head_dim);
    p.row_path = row_path.data();
    p.row_visible = row_visible.data();
  }
  p.rows = rows;
  p.heads = p.kv_heads = heads;
  p.head_dim = head_dim;
  p.context_rows = p.context_capacity = context_rows;
  p.buffer_capacity = capacity;
  p.buffer_path_stride = path_stride;
  p.q_stride = p.out_stride = width;
  p.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  p.out = expected.data();
  reference::SharedContextAttention(p);
  p.out = out.data();
  SharedContextAttention(p);
  if (const double error = LargestError(out, expected); !(error < 1e-5)) {
    state.SkipWithError(("wrong result, error " + std::to_string(error)).c_str());
    return;
  }
  for (auto _ : state) {
    SharedContextAttention(p);
    benchmark::ClobberMemory();
  }
  Report(state, 4.0 * rows * width * (context_rows + visible));
}

void BM_LayerNorm(benchmark::State& state) {
  const int64_t rows = 64;
  const int64_t width = state.range(0);
  const Tensor x = RandomTensor(rows * width, 1);
  const Tensor residual = RandomTensor(rows * width, 2);
  const Tensor gamma = RandomTensor(width, 3);
  const Tensor beta = RandomTensor(width, 4);
  Tensor expected(rows * width, NAN);
  Tensor y(rows * width, NAN);
  LayerNormParams p;
  p.x = x.data();
  p.residual = residual.data();
  p.gamma = gamma.data();
  p.beta = beta.data();
  p.rows = rows;
  p.width = width;
  p.y = expected.data();
  reference::LayerNorm(p);
  p.y = y.data();
  LayerNorm(p);
  if (!(LargestError(y, expected) < 1e-5)) {
    state.SkipWithError("wrong result");
    return;
  }
  for (auto _ : state) {
    LayerNorm(p);
    benchmark::ClobberMemory();
  }
}

// One new key and value for each of 32 paths: every decode step does this once per layer.
void BM_AppendKv(benchmark::State& state) {
  const int64_t paths = 32;
  const int64_t heads = 4;
  const int64_t head_dim = 32;
  const int64_t capacity = 32;
  const Tensor k = RandomTensor(paths * heads * head_dim, 1);
  const int64_t path_stride = LayerKvSize(capacity, heads, head_dim);
  Tensor buffers(paths * path_stride, 0.0f);
  AppendKvParams p;
  p.n = 1;
  p.offset = 17;
  p.capacity = capacity;
  p.kv_heads = heads;
  p.head_dim = head_dim;
  p.kv_stride = heads * head_dim;
  for (auto _ : state) {
    for (int64_t path = 0; path < paths; ++path) {
      p.k = p.v = k.data() + path * p.kv_stride;
      p.keys = buffers.data() + path * path_stride;
      p.values = p.keys + heads * PackedKeysSize(capacity, head_dim);
      AppendKv(p);
    }
    benchmark::ClobberMemory();
  }
}

void BM_MixtureHead(benchmark::State& state) {
  const int64_t rows = 32;
  const int64_t components = 20;
  const Tensor numbers = RandomTensor(rows * components * 3, 1);
  const std::vector<double> raw(numbers.begin(), numbers.end());
  const Tensor bias = RandomTensor(components, 2);
  std::vector<double> mean(rows * components), std(rows * components),
      log_weight(rows * components);
  MixtureHeadParams p;
  p.raw = raw.data();
  p.mean_bias = p.std_bias = p.weight_bias = bias.data();
  p.mean = mean.data();
  p.std = std.data();
  p.log_weight = log_weight.data();
  p.rows = rows;
  p.components = components;
  p.raw_stride = 3 * components;
  p.std_min = 1e-3f;
  p.std_max = 10;
  for (auto _ : state) {
    MixtureHead(p);
    benchmark::ClobberMemory();
  }
}

BENCHMARK_CAPTURE(BM_Linear, plain, Activation::kNone)
    ->ArgNames({"rows", "in", "out"})
    ->Args({64, 128, 128})
    ->Args({64, 128, 256})
    ->Args({64, 256, 128})
    ->Args({64, 128, 384})
    ->Args({64, 256, 1024})
    ->Args({64, 1024, 256})
    ->Args({1, 128, 128});
BENCHMARK_CAPTURE(BM_Linear, gelu, Activation::kGelu)
    ->ArgNames({"rows", "in", "out"})
    ->Args({64, 128, 256});
BENCHMARK(BM_Attention)
    ->ArgNames({"context", "buffer", "Dh"})
    ->Args({100, 16, 32})
    ->Args({442, 16, 32})
    ->Args({1024, 16, 32})
    ->Args({8192, 16, 32})
    ->Args({100, 0, 32})
    ->Args({1024, 0, 32})
    ->Args({1024, 16, 64})
    ->Args({1024, 16, 128});
BENCHMARK(BM_LayerNorm)->ArgName("width")->Arg(128);
BENCHMARK(BM_AppendKv);
BENCHMARK(BM_MixtureHead);

}  // namespace
}  // namespace chorale::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::printf("SIMD target %s, multiply-add peak of one core %.1f GFLOP/s\n",
              chorale::kernels::SimdTargetName().c_str(),
              chorale::kernels::MeasuredFmaPeak() * 1e-9);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
