// Microseconds per decode step of the CPU backend, at the standard points.
//
// Usage: decode_bench [--threads N] [--runs N] [--points B,Nctx;B,Nctx;...]
//                     [--memory_rows M [--memory_policy merge|heavy|sample]]
//
// One run draws B paths over T = 32 query rows against a context of Nctx rows: D=128 H=4 L=12
// Dff=256 M=20, two tokens per path and step. The time per step is the run's time divided by T.
// Before anything is timed, the log-densities that the decode reports of its own draws are held
// against teacher forcing. Prints one JSON line per point: the median over runs, GFLOP/s, and the
// share of the fused multiply-add peak measured on as many cores just before; also the seconds of
// the encoding of the context, once, in slices of any length. With --memory_rows, a larger context
// is reduced to a memory set of M keys (engine/data/memory_set.h).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/backend.h"
#include "kernels/cpu/target.h"
#include "tests/bench/bench_point.h"
#include "tests/bench/bench_session.h"
#include "tests/bench/fma_peak.h"

ABSL_FLAG(int, threads, 0, "Threads of the backend; 0 for one per processor.");
ABSL_FLAG(int, runs, 5, "Timed runs per point, after one that is not timed.");
ABSL_FLAG(std::string, points, "64,442;512,1024;64,8192", "Points B,Nctx, separated by ';'.");

ABSL_FLAG(int64_t, memory_rows, 0, "Keys of a memory set; 0: one for each row.");
ABSL_FLAG(std::string, memory_policy, "merge", "merge, heavy or sample.");

namespace chorale {
namespace {

constexpr double kTolerance = 1e-3;  // of a log-density, in nats

std::vector<BenchPoint> ParsePoints(const std::string& text) {
  std::vector<BenchPoint> points;
  for (absl::string_view each : absl::StrSplit(text, ';', absl::SkipEmpty())) {
    const std::vector<absl::string_view> numbers = absl::StrSplit(each, ',');
    BenchPoint point = {.memory = MemorySetOf(absl::GetFlag(FLAGS_memory_rows),
                                              absl::GetFlag(FLAGS_memory_policy))};
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &point.paths) ||
        !absl::SimpleAtoi(numbers[1], &point.context_rows)) {
      std::fprintf(stderr, "--points: '%s' is not B,Nctx\n", std::string(each).c_str());
      std::exit(2);
    }
    points.push_back(point);
  }
  return points;
}

// All tiles from the first step to the last. Returns the floating-point operations done.
double Run(const BenchSession& session, Backend& backend, const Works<DecodeWork>& tiles) {
  double flops = 0;
  for (int64_t step = 0; step < session.point().query_rows; ++step) {
    std::vector<Slice> slices;
    for (const std::unique_ptr<DecodeWork>& tile : tiles) {
      flops += tile->next_step_flops();
      slices.push_back({tile.get(), 1});
    }
    if (!backend.Advance(slices).ok()) Fail("the backend failed");
  }
  return flops;
}

// Worst difference between the log-densities of the first tile's draws and teacher forcing.
double WorstDensityError(const BenchSession& session, const Works<DecodeWork>& tiles) {
  const DecodeWork& tile = *tiles.front();
  const Works<DensityWork> densities =
      session.NewDensities({tile.values().begin(), tile.values().end()});
  session.Run(densities);
  double worst = 0;
  for (size_t i = 0; i < tile.log_densities().size(); ++i) {
    const double error = std::abs(densities.front()->log_densities()[i] - tile.log_densities()[i]);
    worst = error <= worst ? worst : error;  // a NaN is the worst
  }
  return worst;
}

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
  for (const BenchPoint& point : ParsePoints(absl::GetFlag(FLAGS_points))) {
    auto backend = cpu::NewBackend(
        {.threads = threads, .context_pool_bytes = 1LL << 30, .buffer_pool_bytes = 1LL << 30});
    if (!backend.ok()) return 1;
    const BenchSession session(backend->get(), ModelOf(point), point);
    const Works<DecodeWork> first = session.NewDecodes(7);
    Run(session, **backend, first);
    const double error = WorstDensityError(session, first);
    if (!(error <= kTolerance)) {
      std::fprintf(stderr, "decode and teacher forcing differ by %g nats\n", error);
      return 1;
    }
    const double peak = Peak(threads);
    std::vector<double> seconds;
    double flops = 0;
    for (int i = 0; i < runs; ++i) {
      const Works<DecodeWork> tiles = session.NewDecodes(7);
      seconds.push_back(1e-6 * Microseconds([&] { flops = Run(session, **backend, tiles); }));
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    const auto query_rows = static_cast<double>(point.query_rows);
    std::printf(
        "{\"name\": \"chorale\", \"target\": \"%s\", \"threads\": %d, \"B\": %lld, \"Nctx\": %lld, "
        "\"memory_rows\": %lld, \"encode_s\": %.2f, \"us_per_step\": %.1f, \"min_us\": %.1f, "
        "\"max_us\": %.1f, \"gflops\": %.1f, "
        "\"peak_gflops\": %.1f, \"share_of_peak\": %.3f, \"worst_density_error\": %.2g}\n",
        kernels::SimdTargetName().c_str(), threads, static_cast<long long>(point.paths),
        static_cast<long long>(point.context_rows), static_cast<long long>(point.memory.rows),
        session.encode_microseconds() * 1e-6, median / query_rows * 1e6,
        seconds.front() / query_rows * 1e6, seconds.back() / query_rows * 1e6,
        flops / median * 1e-9, peak * 1e-9, flops / median / peak, error);
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
