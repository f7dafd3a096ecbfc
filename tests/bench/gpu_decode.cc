// Microseconds per decode step of the GPU backend, at the standard points.
//
// Usage: gpu_decode [--runs N] [--points NAME,NAME,...]
//
// One run draws B paths over T = 32 targets against a context of Nctx rows, as the engine would:
// tiles of 32 paths, all in one Advance. The time per step is the run's wall time divided by T,
// with all copies between host and device. Before anything is timed, the log-densities that the
// decode reports of its own draws are held against teacher forcing, and must have its bits. Weights
// are random; the time does not depend on them.
//
// Prints one JSON line per point: the median over runs, and the share reached of the physical floor
// (tensor cores, exponentials and memory of an H200; see floor_us). Without a GPU it says so and
// ends with 0.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_split.h"
#include "engine/backends/backend.h"
#include "engine/backends/cuda/cuda_backend.h"
#include "tests/engine/backends/test_model.h"

ABSL_FLAG(int, runs, 9, "Timed runs per point, after two that are not timed.");
ABSL_FLAG(std::vector<std::string>, points,
          (std::vector<std::string>{"a", "b", "c", "d", "e", "B", "C"}),
          "Points to run; B and C are b' and c', of the wider model.");

namespace chorale {
namespace {

constexpr int64_t kTargets = 32;
constexpr int64_t kFeatures = 4;
constexpr int64_t kTilePaths = 32;

struct Point {
  std::string name;
  int64_t paths = 0;
  int64_t context_rows = 0;
  bool wide = false;
  // Microseconds per step: the largest of the times that the tensor cores (790 TFLOP/s), the
  // exponentials (16 a clock and multiprocessor) and the traffic of the buffers (4.3 TB/s) take; 0
  // where none was worked out.
  double floor_us = 0;
};

const std::vector<Point>& Points() {
  static const auto* const points = new std::vector<Point>{
      {"a", 512, 100, false, 12},  {"b", 512, 1024, false, 13}, {"c", 4096, 1024, false, 104},
      {"d", 64, 8192, false, 12},  {"e", 64, 1024, false, 0},   {"B", 512, 1024, true, 44},
      {"C", 4096, 1024, true, 348}};
  return *points;
}

TestModelOptions ModelOf(const Point& point) {
  TestModelOptions options = {.name = "bench", .d_model = 128, .n_heads = 4, .n_kv_heads = 4};
  options.n_layers = 12;
  options.d_ff = 256;
  options.num_components = 20;
  options.buffer_size = kTargets;
  if (point.wide) {
    options.d_model = 256;
    options.n_heads = options.n_kv_heads = 8;
    options.d_ff = 1024;
  }
  return options;
}

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "gpu_decode: %s\n", what.c_str());
  std::exit(1);
}

class Bench {
 public:
  Bench(const Point& point, Backend& backend) : point_(point), backend_(backend) {
    const Model model = MakeTestModel(ModelOf(point));
    absl::StatusOr<std::shared_ptr<const BackendModel>> added = backend.AddModel(model);
    if (!added.ok()) Fail(added.status().ToString());
    const PoolRange kv = {0, backend.ContextBytes(model.config, point.context_rows)};
    const auto encode = backend.NewEncode(
        *added, MakeFeatures(point.context_rows, kFeatures, 1), MakeValues(point.context_rows, 2),
        kv, {0, backend.EncodeBytes(model.config, point.context_rows)});
    encode_us_ = Time([&] { Run({encode.get()}); });
    context_ = std::make_shared<const ResidentContext>(encode->TakeContext());
    // Behind the buffers of all tiles.
    const int64_t rows_bytes = backend.RowsBytes(model.config, kTargets);
    const auto rows = backend.NewRows(context_, MakeFeatures(kTargets, kFeatures, 3),
                                      {backend.buffer_pool_bytes() - rows_bytes, rows_bytes});
    Run({rows.get()});
    targets_ = rows->TakeRows();
  }

  // Paths whose decode and density were compared.
  int64_t Validate() {
    const std::vector<std::unique_ptr<DecodeWork>> decodes = Decodes();
    Run(Pointers(decodes));
    // The first and the last tile: their buffers are done with.
    int64_t compared = 0;
    for (const DecodeWork* decode : {decodes.front().get(), decodes.back().get()}) {
      std::vector<float> values(decode->values().size());
      for (int64_t p = 0; p < kTilePaths; ++p) {
        for (int64_t t = 0; t < kTargets; ++t) {
          values[p * kTargets + t] = decode->values()[t * kTilePaths + p];
        }
      }
      DensitySpec spec;
      spec.tile = Tile();
      spec.buffer = {0, backend_.DensityBytes(context_->model->config(), kTargets, kTilePaths)};
      spec.values = values;
      const auto density = backend_.NewDensity(std::move(spec));
      Run({density.get()});
      for (int64_t p = 0; p < kTilePaths; ++p, ++compared) {
        for (int64_t t = 0; t < kTargets; ++t) {
          const double step = decode->log_densities()[t * kTilePaths + p];
          const double forced = density->log_densities()[p * kTargets + t];
          if (!(step == forced)) {
            Fail("log-density of path " + std::to_string(p) + ", place " + std::to_string(t) +
                 ": " + std::to_string(step) + " step by step, " + std::to_string(forced) +
                 " by teacher forcing");
          }
        }
      }
    }
    return compared;
  }

  double MedianStepMicroseconds(int runs) {
    std::vector<double> times;
    for (int run = -2; run < runs; ++run) {
      const std::vector<std::unique_ptr<DecodeWork>> decodes = Decodes();
      const double time = Time([&] { Run(Pointers(decodes)); });
      if (run >= 0) times.push_back(time / kTargets);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

  double encode_us() const { return encode_us_; }

 private:
  template <typename Body>
  static double Time(const Body& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
        .count();
  }

  TileSpec Tile() const {
    TileSpec tile;
    tile.context = context_;
    tile.targets = targets_;
    tile.paths = kTilePaths;
    return tile;
  }

  std::vector<std::unique_ptr<DecodeWork>> Decodes() {
    const int64_t bytes = backend_.BufferBytes(context_->model->config(), kTargets, kTilePaths);
    std::vector<std::unique_ptr<DecodeWork>> decodes;
    for (int64_t first = 0; first < point_.paths; first += kTilePaths) {
      DecodeSpec spec;
      spec.tile = Tile();
      spec.buffer = {first / kTilePaths * bytes, bytes};
      spec.seed = 1;
      spec.first_path = first;
      decodes.push_back(backend_.NewDecode(std::move(spec)));
    }
    return decodes;
  }

  template <typename T>
  static std::vector<Work*> Pointers(const std::vector<std::unique_ptr<T>>& works) {
    std::vector<Work*> pointers;
    for (const std::unique_ptr<T>& work : works) pointers.push_back(work.get());
    return pointers;
  }

  void Run(const std::vector<Work*>& works) {
    std::vector<Slice> slices;
    for (Work* work : works) slices.push_back({work, 1 << 20});
    const absl::Status status = backend_.Advance(slices);
    if (!status.ok()) Fail(status.ToString());
  }

  const Point point_;
  Backend& backend_;
  double encode_us_ = 0;
  std::shared_ptr<const ResidentContext> context_;
  std::shared_ptr<const EncodedRows> targets_;
};

int Main() {
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      NewCudaBackend({.context_pool_bytes = 1LL << 30,
                      .buffer_pool_bytes = 8LL << 30,
                      .workspace_bytes = 2LL << 30});
  if (absl::IsUnavailable(backend.status())) {
    std::printf("skipped: %s\n", backend.status().ToString().c_str());
    return 0;
  }
  if (!backend.ok()) Fail(backend.status().ToString());
  std::printf("{\"device\": \"%s\"}\n", (*backend)->description().c_str());
  const std::vector<std::string> wanted = absl::GetFlag(FLAGS_points);
  for (const Point& point : Points()) {
    if (std::find(wanted.begin(), wanted.end(), point.name) == wanted.end()) continue;
    Bench bench(point, **backend);
    const int64_t compared = bench.Validate();
    const double us = bench.MedianStepMicroseconds(std::max(1, absl::GetFlag(FLAGS_runs)));
    std::printf(
        "{\"point\": \"%s\", \"B\": %ld, \"Nctx\": %ld, \"T\": %ld, \"us_per_step\": %.1f, "
        "\"floor_us\": %.0f, \"share_of_floor\": %.2f, \"first_encode_us\": %.0f, "
        "\"paths_compared\": %ld}\n",
        point.name.c_str(), static_cast<long>(point.paths), static_cast<long>(point.context_rows),
        static_cast<long>(kTargets), us, point.floor_us, point.floor_us / us, bench.encode_us(),
        static_cast<long>(compared));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace chorale

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("times decode steps of the GPU backend");
  absl::ParseCommandLine(argc, argv);
  return chorale::Main();
}
