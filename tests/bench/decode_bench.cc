// Microseconds per decode step of the CPU backend, at the standard points.
//
// Usage: decode_bench [--threads N] [--runs N] [--points B,Nctx;B,Nctx;...]
//
// One run draws B paths over T = 32 targets against a context of Nctx rows: D=128 H=4 L=12 Dff=256
// M=20, two tokens per path and step. The time per step is the run's time divided by T. Before
// anything is timed, the log-densities that the decode reports of its own draws are held against
// teacher forcing. Prints one JSON line per point: the median over runs, GFLOP/s, and the share of
// the fused multiply-add peak measured on as many cores just before.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu_backend.h"
#include "kernels/cpu/target.h"
#include "tests/bench/fma_peak.h"
#include "tests/engine/backends/test_model.h"

ABSL_FLAG(int, threads, 0, "Threads of the backend; 0 for one per processor.");
ABSL_FLAG(int, runs, 5, "Timed runs per point, after one that is not timed.");
ABSL_FLAG(std::string, points, "64,442;512,1024;64,8192", "Points B,Nctx, separated by ';'.");

namespace chorale {
namespace {

constexpr int64_t kTargets = 32;
constexpr int64_t kFeatures = 4;
constexpr double kTolerance = 1e-3;  // of a log-density, in nats

struct Point {
  int64_t paths = 0;
  int64_t context_rows = 0;
};

std::vector<Point> ParsePoints(const std::string& text) {
  std::vector<Point> points;
  for (absl::string_view each : absl::StrSplit(text, ';', absl::SkipEmpty())) {
    const std::vector<absl::string_view> numbers = absl::StrSplit(each, ',');
    Point point;
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &point.paths) ||
        !absl::SimpleAtoi(numbers[1], &point.context_rows)) {
      std::fprintf(stderr, "--points: '%s' is not B,Nctx\n", std::string(each).c_str());
      std::exit(2);
    }
    points.push_back(point);
  }
  return points;
}

void Finish(Backend& backend, Work* work) {
  while (!work->done()) {
    const Slice slice = {work, 1 << 20};
    if (!backend.Advance({&slice, 1}).ok()) std::abort();
  }
}

class Session {
 public:
  Session(Backend* backend, std::shared_ptr<const BackendModel> model, const Point& point)
      : backend_(backend), point_(point) {
    auto encode = backend->NewEncode(
        model, MakeFeatures(point.context_rows, kFeatures, 1), MakeValues(point.context_rows, 2),
        {0, backend->ContextBytes(model->config(), point.context_rows)}, PoolRange());
    Finish(*backend, encode.get());
    context_ = std::make_shared<const ResidentContext>(encode->TakeContext());
    auto rows = backend->NewRows(context_, MakeFeatures(kTargets, kFeatures, 3), PoolRange());
    Finish(*backend, rows.get());
    targets_ = rows->TakeRows();
  }

  // All tiles from the first step to the last. Returns the floating-point operations done.
  double Run() {
    const ModelConfig& config = context_->model->config();
    const int64_t tile_paths = backend_->tile_paths();
    tiles_.clear();
    buffer_bytes_ = 0;
    for (int64_t first = 0; first < point_.paths; first += tile_paths) {
      DecodeSpec spec;
      spec.tile.context = context_;
      spec.tile.targets = targets_;
      spec.tile.paths = std::min(tile_paths, point_.paths - first);
      spec.buffer = {buffer_bytes_, backend_->BufferBytes(config, kTargets, spec.tile.paths)};
      spec.seed = 7;
      spec.first_path = first;
      buffer_bytes_ += spec.buffer.bytes;
      tiles_.push_back(backend_->NewDecode(std::move(spec)));
    }
    double flops = 0;
    for (int64_t step = 0; step < kTargets; ++step) {
      std::vector<Slice> slices;
      for (const auto& tile : tiles_) {
        flops += tile->next_step_flops();
        slices.push_back({tile.get(), 1});
      }
      if (!backend_->Advance(slices).ok()) std::abort();
    }
    return flops;
  }

  // Worst difference between the log-densities of the first tile's draws and teacher forcing.
  double WorstDensityError() {
    const DecodeWork& tile = *tiles_.front();
    const int64_t paths = std::min(backend_->tile_paths(), point_.paths);
    DensitySpec spec;
    spec.tile.context = context_;
    spec.tile.targets = targets_;
    spec.tile.paths = paths;
    spec.buffer = {buffer_bytes_,
                   backend_->DensityBytes(context_->model->config(), kTargets, paths)};
    for (int64_t path = 0; path < paths; ++path) {
      for (int64_t t = 0; t < kTargets; ++t) {
        spec.values.push_back(tile.values()[t * paths + path]);
      }
    }
    auto density = backend_->NewDensity(std::move(spec));
    Finish(*backend_, density.get());
    double worst = 0;
    for (int64_t path = 0; path < paths; ++path) {
      for (int64_t t = 0; t < kTargets; ++t) {
        const double error = std::abs(density->log_densities()[path * kTargets + t] -
                                      tile.log_densities()[t * paths + path]);
        worst = error <= worst ? worst : error;  // a NaN is the worst
      }
    }
    return worst;
  }

 private:
  Backend* const backend_;
  const Point point_;
  std::shared_ptr<const ResidentContext> context_;
  std::shared_ptr<const EncodedRows> targets_;
  std::vector<std::unique_ptr<DecodeWork>> tiles_;
  int64_t buffer_bytes_ = 0;  // that the tiles take
};

// The peak of `threads` cores together, measured while all of them are busy.
double Peak(int threads) {
  std::vector<double> peaks(threads);
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&peaks, i] { peaks[i] = kernels::MeasuredFmaPeak(); });
  }
  double sum = 0;
  for (int i = 0; i < threads; ++i) {
    workers[i].join();
    sum += peaks[i];
  }
  return sum;
}

int Main() {
  int threads = absl::GetFlag(FLAGS_threads);
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int runs = std::max(1, absl::GetFlag(FLAGS_runs));
  const Model model = MakeTestModel({.name = "bench",
                                     .d_model = 128,
                                     .n_heads = 4,
                                     .n_kv_heads = 4,
                                     .n_layers = 12,
                                     .d_ff = 256,
                                     .num_components = 20,
                                     .buffer_size = kTargets});
  for (const Point& point : ParsePoints(absl::GetFlag(FLAGS_points))) {
    auto backend = NewCpuBackend(
        {.threads = threads, .context_pool_bytes = 1LL << 30, .buffer_pool_bytes = 1LL << 30});
    if (!backend.ok()) return 1;
    auto weights = (*backend)->AddModel(model);
    if (!weights.ok()) return 1;
    Session session(backend->get(), *weights, point);
    session.Run();
    const double error = session.WorstDensityError();
    if (!(error <= kTolerance)) {
      std::fprintf(stderr, "decode and teacher forcing differ by %g nats\n", error);
      return 1;
    }
    const double peak = Peak(threads);
    std::vector<double> seconds;
    double flops = 0;
    for (int i = 0; i < runs; ++i) {
      const auto start = std::chrono::steady_clock::now();
      flops = session.Run();
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    std::printf(
        "{\"name\": \"chorale\", \"target\": \"%s\", \"threads\": %d, \"B\": %lld, \"Nctx\": %lld, "
        "\"us_per_step\": %.1f, \"min_us\": %.1f, \"max_us\": %.1f, \"gflops\": %.1f, "
        "\"peak_gflops\": %.1f, \"share_of_peak\": %.3f, \"worst_density_error\": %.2g}\n",
        kernels::SimdTargetName().c_str(), threads, static_cast<long long>(point.paths),
        static_cast<long long>(point.context_rows), median / kTargets * 1e6,
        seconds.front() / kTargets * 1e6, seconds.back() / kTargets * 1e6, flops / median * 1e-9,
        peak * 1e-9, flops / median / peak, error);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace chorale

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Times decode steps of the CPU backend; prints JSON lines.");
  absl::ParseCommandLine(argc, argv);
  return chorale::Main();
}
