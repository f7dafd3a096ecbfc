#include "tests/bench/gemm_bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/gemm/gemm_plan.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/cuda/unfused/unfused_rows.h"
#include "tests/bench/bench_session.h"
#include "tests/bench/device_layers.h"
#include "tests/engine/backend/reference_math.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

using Json = nlohmann::ordered_json;
using kernels::cuda::GemmLibrary;
using kernels::cuda::GemmPlan;
using kernels::cuda::kTileRows;
using kernels::cuda::Stream;
using kernels::cuda::Tile;

// How far a row may be from the definition, absolute: numbers are of order one, and bfloat16 costs
// about 2^-9 of a sum in each of five products. A wrong result is off by about one.
constexpr double kBound = 0.1;

// What is run for one time. On the emulator times mean nothing, and take long.
struct Repeats {
  int in_graph = 24;  // so that 12 layers have two turns each
  int graphs = 4;
};
Repeats RepeatsHere() {
  if (kernels::cuda::LinkedDevice() == kernels::cuda::DeviceKind::kEmulator) {
    return {.in_graph = 2, .graphs = 1};
  }
  return {};
}

// A row behind a layer: x, and its queries for the next one.
struct RowResult {
  reference::Vector x, q;
};

// By the definition, with weights that are not rounded: post-attention of layer 0, pre-attention of
// layer `next`.
RowResult ExpectedRow(const Model& model, size_t next, reference::Vector x,
                      const reference::Vector& attended) {
  using reference::Add;
  using reference::LayerNorm;
  using reference::Linear;
  const LayerWeights& post = model.layers[0];
  const LayerWeights& pre = model.layers[next];
  const double epsilon = model.config.layer_norm_eps;
  x = LayerNorm(post.norm2, epsilon, Add(x, Linear(post.wo, {}, attended)));
  const reference::Vector hidden = reference::Gelu(Linear(post.w1, post.b1, x));
  x = LayerNorm(post.norm3, epsilon, Add(x, Linear(post.w2, post.b2, hidden)));
  x = LayerNorm(pre.norm1, epsilon, Add(x, Linear(pre.feature, {}, x)));
  reference::Vector q = Linear(pre.wq, {}, x);
  const double scale =
      std::numbers::log2e / std::sqrt(static_cast<double>(model.config.head_dim()));
  for (double& element : q) element *= scale;
  return {std::move(x), std::move(q)};
}

void HoldTo(absl::string_view what, int64_t row, const std::vector<double>& actual,
            const reference::Vector& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::abs(actual[i] - expected[i]) <= kBound) continue;  // and no NaN
    Fail(absl::StrCat(what, " of row ", row, ": element ", i, " is ", actual[i], ", in float64 ",
                      expected[i]));
  }
}

std::vector<double> FromBf16(const std::vector<uint16_t>& bits) {
  std::vector<double> values(bits.size());
  std::transform(bits.begin(), bits.end(), values.begin(), kernels::cuda::FromBf16);
  return values;
}

}  // namespace

struct GemmBench::State {
  State(const Model& of, const GemmBenchOptions& given,
        const kernels::cuda::DeviceProperties& opened)
      : model(of), options(given), device(opened), shape(of.config, opened) {}

  size_t layer_after(size_t layer) const { return (layer + 1) % layers.size(); }

  const Model model;
  const GemmBenchOptions options;
  const kernels::cuda::DeviceProperties device;
  const cuda::KernelShape shape;
  Stream stream = nullptr;
  std::unique_ptr<GemmLibrary> library;
  std::vector<DeviceLayer> layers;
  std::array<GemmPlan, kGemms> plans;
  int64_t launch_rows = 0;  // at most
};

// Rows on the device, and all that launches of them leave for each other.
class GemmBench::Rows {
 public:
  Rows(const State& state, int64_t rows)
      : s_(state),
        rows_(rows),
        launch_rows_(std::min(rows, state.launch_rows)),
        x_values_(MakeValues(rows * s_.shape.width, 1)),
        x_(x_values_),
        kv_(kernels::cuda::ContextLayerSize(rows, s_.shape.kv_heads, s_.shape.head_dim)),
        z_(launch_rows_ * s_.shape.width),
        hidden_(launch_rows_ * s_.shape.hidden),
        qkv_(launch_rows_ * s_.shape.qkv_width()),
        q_(launch_rows_ * s_.shape.query_width()) {
    MakeTiles();
    MakeAttention();
  }

  int64_t launch_rows() const { return launch_rows_; }

  // Post-attention of `layer` and pre-attention of the next one, of all rows.
  void FusedLayer(size_t layer) const {
    EachLaunch([&](int64_t first, int64_t rows) { LaunchFused(layer, first, rows); });
  }
  void WideLayer(size_t layer) const {
    EachLaunch([&](int64_t first, int64_t rows) { LaunchUnfused(layer, first, rows); });
  }
  void OneGemm(size_t product, size_t layer) const {
    EachLaunch([&](int64_t first, int64_t rows) { LaunchOne(product, layer, first, rows); });
  }

  // Runs a layer, and ends the process unless three rows are what the definition says.
  enum class Form { kFused, kWide };
  void Check(Form form) const {
    x_.Upload(x_values_);
    const bool wide = form == Form::kWide;
    if (wide) {
      WideLayer(0);
    } else {
      FusedLayer(0);
    }
    RequireSuccess(kernels::cuda::Synchronize(s_.stream), "running a layer");
    const int32_t width = s_.shape.width;
    for (const int64_t row : {int64_t{0}, rows_ / 2 + 5, rows_ - 1}) {
      const auto x = x_values_.begin() + row * width;
      const int64_t in_launch = row % launch_rows_;
      const RowResult expected = ExpectedRow(
          s_.model, s_.layer_after(0), reference::Vector(x, x + width),
          FromBf16(attended_.Download(in_launch * s_.shape.query_width(), s_.shape.query_width())));
      const std::vector<float> actual = x_.Download(row * width, width);
      HoldTo("x", row, std::vector<double>(actual.begin(), actual.end()), expected.x);
      if (row != rows_ - 1) continue;  // only the queries of the last launch are still there
      const std::vector<uint16_t> q =
          wide ? qkv_.Download(in_launch * s_.shape.qkv_width(), s_.shape.query_width())
               : q_.Download(in_launch * s_.shape.query_width(), s_.shape.query_width());
      HoldTo("queries", row, FromBf16(q), expected.q);
    }
  }

  // Of one repetition, in microseconds; repetitions take the layers in turn.
  double Time(absl::FunctionRef<void(size_t layer)> enqueue) const {
    const Repeats repeats = RepeatsHere();
    kernels::cuda::Graph* graph = nullptr;
    RequireSuccess(kernels::cuda::BeginRecording(s_.stream), "recording");
    for (int i = 0; i < repeats.in_graph; ++i) enqueue(i % s_.layers.size());
    RequireSuccess(kernels::cuda::EndRecording(s_.stream, &graph), "recording");
    const auto run = [&] {
      for (int i = 0; i < repeats.graphs; ++i) {
        RequireSuccess(kernels::cuda::RunGraph(graph, s_.stream), "running launches");
      }
      RequireSuccess(kernels::cuda::Synchronize(s_.stream), "running launches");
    };
    run();
    std::vector<double> times(s_.options.runs);
    for (double& time : times) time = Microseconds(run);
    RequireSuccess(kernels::cuda::DestroyGraph(graph), "freeing a graph");
    return Median(times) / (repeats.in_graph * repeats.graphs);
  }

 private:
  // All rows are those of one context, whose keys and values they write.
  void MakeTiles() {
    std::vector<Tile> tiles(rows_ / kTileRows);
    for (size_t i = 0; i < tiles.size(); ++i) {
      tiles[i].context = kv_.data();
      tiles[i].context_rows = static_cast<int32_t>(rows_);
      tiles[i].groups = kernels::cuda::kTileGroups;
      tiles[i].first_row = static_cast<int32_t>(i * kTileRows);
      tiles[i].encode_rows = kTileRows;
    }
    tiles_ = DeviceVector<Tile>(tiles);
  }

  // Attention of a launch's rows, and the same as partials; all launches read it.
  void MakeAttention() {
    std::vector<float> attention = MakeValues(launch_rows_ * s_.shape.query_width(), 2);
    std::vector<uint16_t> bits;
    bits.reserve(attention.size());
    for (float& element : attention) {
      bits.push_back(kernels::cuda::ToBf16(element));
      element = kernels::cuda::FromBf16(bits.back());
    }
    std::vector<float> ml(2 * launch_rows_ * s_.shape.heads);
    for (size_t i = 1; i < ml.size(); i += 2) ml[i] = 1;
    attended_ = DeviceVector<uint16_t>(bits);
    partial_o_ = DeviceVector<float>(attention);
    partial_ml_ = DeviceVector<float>(ml);
  }

  void EachLaunch(absl::FunctionRef<void(int64_t first, int64_t rows)> launch) const {
    for (int64_t first = 0; first < rows_; first += launch_rows_) {
      launch(first, std::min(launch_rows_, rows_ - first));
    }
  }

  void LaunchFused(size_t layer, int64_t first, int64_t rows) const {
    const kernels::cuda::LayerParams params = {
        .tiles = tiles_.data() + first / kTileRows,
        .x = x_.data() + first * s_.shape.width,
        .partial_o = partial_o_.data(),
        .partial_ml = partial_ml_.data(),
        .q = q_.data(),
        .post_attention = s_.layers[layer].post_attention(),
        .pre_attention = s_.layers[s_.layer_after(layer)].pre_attention(),
        .tile_count = static_cast<int32_t>(rows / kTileRows),
        .shape = s_.shape,
        .epsilon = s_.model.config.layer_norm_eps};
    const int shared_bytes = s_.device.shared_bytes_per_block;
    const absl::StatusOr<int> block_rows =
        kernels::cuda::ChooseBlockRows(params, s_.device.multiprocessors, shared_bytes);
    if (!block_rows.ok()) Fail(block_rows.status().ToString());
    RequireSuccess(kernels::cuda::LaunchLayer(params, *block_rows, shared_bytes, s_.stream),
                   "launching a layer");
  }

  void LaunchUnfused(size_t layer, int64_t first, int64_t rows) const {
    const DeviceLayer& post = s_.layers[layer];
    const size_t next = s_.layer_after(layer);
    const DeviceLayer& pre = s_.layers[next];
    LaunchOne(kOutputProjection, layer, first, rows);
    Normalize(first, rows, nullptr, post.gamma2, post.beta2);
    LaunchOne(kMlpUp, layer, first, rows);
    RequireSuccess(kernels::cuda::LaunchGeluRows({.hidden = hidden_.data(),
                                                  .b1 = post.b1.data(),
                                                  .rows = rows,
                                                  .width = s_.shape.hidden},
                                                 s_.stream),
                   "launching GELU");
    LaunchOne(kMlpDown, layer, first, rows);
    Normalize(first, rows, post.b2.data(), post.gamma3, post.beta3);
    LaunchOne(kFeatureAttention, next, first, rows);
    Normalize(first, rows, nullptr, pre.gamma1, pre.beta1);
    LaunchOne(kQkvProjection, next, first, rows);
    RequireSuccess(
        kernels::cuda::LaunchStoreKv({.tiles = tiles_.data() + first / kTileRows,
                                      .qkv = qkv_.data(),
                                      .tile_count = static_cast<int32_t>(rows / kTileRows),
                                      .shape = s_.shape,
                                      .kv_layer = 0},
                                     s_.stream),
        "storing K and V");
  }

  void Normalize(int64_t first, int64_t rows, const float* bias, const DeviceVector<float>& gamma,
                 const DeviceVector<float>& beta) const {
    RequireSuccess(kernels::cuda::LaunchNormalizeRows({.x = x_.data() + first * s_.shape.width,
                                                       .z = z_.data(),
                                                       .bias = bias,
                                                       .gamma = gamma.data(),
                                                       .beta = beta.data(),
                                                       .rows = rows,
                                                       .width = s_.shape.width,
                                                       .epsilon = s_.model.config.layer_norm_eps},
                                                      s_.stream),
                   "launching a norm");
  }

  void LaunchOne(size_t product, size_t layer, int64_t first, int64_t rows) const {
    float* const x = x_.data() + first * s_.shape.width;
    const std::array<const uint16_t*, kGemms> inputs = {attended_.data(), z_.data(), hidden_.data(),
                                                        z_.data(), z_.data()};
    const std::array<void*, kGemms> results = {x, hidden_.data(), x, x, qkv_.data()};
    RequireSuccess(kernels::cuda::LaunchGemm(*s_.library, s_.plans[product],
                                             {.x = inputs[product],
                                              .weight = s_.layers[layer].matrices[product].data(),
                                              .y = results[product],
                                              .rows = rows},
                                             s_.stream),
                   kGemmNames[product]);
  }

  const State& s_;
  const int64_t rows_;
  const int64_t launch_rows_;
  const std::vector<float> x_values_;
  const DeviceVector<float> x_;      // [rows, D]
  const DeviceVector<uint16_t> kv_;  // one layer of the context, bf16
  DeviceVector<Tile> tiles_;         // [rows / 64]
  // Of one launch.
  DeviceVector<uint16_t> attended_;      // [rows, H Dh] bf16
  DeviceVector<float> partial_o_;        // [rows, H Dh]
  DeviceVector<float> partial_ml_;       // [rows, H, 2]
  const DeviceVector<uint16_t> z_;       // [rows, D] bf16
  const DeviceVector<uint16_t> hidden_;  // [rows, Dff] bf16
  const DeviceVector<uint16_t> qkv_;     // [rows, (H + 2 Hkv) Dh] bf16, of the unfused form
  const DeviceVector<uint16_t> q_;       // [rows, H Dh] bf16, of the fused form
};

GemmBench::GemmBench(const Model& model, const GemmBenchOptions& options) {
  kernels::cuda::DeviceProperties device;
  RequireSuccess(kernels::cuda::OpenDevice(&device), "opening the device");
  auto state = std::make_unique<State>(model, options, device);
  const absl::Status checked = state->shape.Check(model.config, device);
  if (!checked.ok()) Fail(checked.ToString());
  if (state->shape.head_dim != model.config.head_dim() ||
      state->shape.hidden != model.config.d_ff) {
    Fail("products are not measured of a model whose heads or hidden layers need padding");
  }
  RequireSuccess(kernels::cuda::CreateStream(&state->stream), "making a stream");
  absl::StatusOr<std::unique_ptr<GemmLibrary>> library = GemmLibrary::Open(options.cublaslt);
  if (!library.ok()) Fail(library.status().ToString());
  state->library = *std::move(library);
  const bool has_wgmma = device.compute_major == kernels::cuda::kWgmmaComputeMajor;
  for (const LayerWeights& layer : model.layers) {
    state->layers.emplace_back(layer, model.config, state->shape, has_wgmma);
  }
  const DeviceVector<char> scratch(options.scratch_bytes);
  const auto shapes = GemmShapes(state->shape);
  state->launch_rows = kernels::cuda::kMostGemmRows;
  for (size_t product = 0; product < kGemms; ++product) {
    const absl::StatusOr<GemmPlan> plan = kernels::cuda::PlanGemm(
        *state->library, shapes[product],
        {.memory = scratch.data(), .bytes = options.scratch_bytes}, state->stream);
    if (!plan.ok()) Fail(plan.status().ToString());
    state->plans[product] = *plan;
    state->launch_rows = std::min(state->launch_rows, plan->most_rows());
  }
  state_ = std::move(state);
}

GemmBench::~GemmBench() {
  RequireSuccess(kernels::cuda::DestroyStream(state_->stream), "ending a stream");
}

nlohmann::ordered_json GemmBench::Measure(int64_t rows) const {
  const State& s = *state_;
  const Rows on_device(s, rows);
  Json line = {{"device", s.device.name},
               {"library", s.library->description()},
               {"form", s.shape.fused ? "fused" : "wide"},
               {"D", s.shape.width},
               {"Dff", s.shape.hidden},
               {"rows", rows},
               {"launch_rows", on_device.launch_rows()}};
  on_device.Check(Rows::Form::kWide);
  if (s.shape.fused) {
    on_device.Check(Rows::Form::kFused);
    line["fused_layer_us"] = on_device.Time([&](size_t layer) { on_device.FusedLayer(layer); });
  }
  line["wide_layer_us"] = on_device.Time([&](size_t layer) { on_device.WideLayer(layer); });
  double all_us = 0;
  double all_flop = 0;
  const auto add = [&](absl::string_view name, double flop, double us) {
    line[std::string(name)] = {{"us", us}, {"tflop_per_s", flop / us * 1e-6}};
  };
  for (size_t product = 0; product < kGemms; ++product) {
    const kernels::cuda::GemmShape& shape = s.plans[product].shape;
    const double flop = 2.0 * static_cast<double>(rows) * shape.inputs * shape.outputs;
    const double us = on_device.Time([&](size_t layer) { on_device.OneGemm(product, layer); });
    add(kGemmNames[product], flop, us);
    all_flop += flop;
    all_us += us;
  }
  add("products", all_flop, all_us);
  return line;
}

}  // namespace chorale
