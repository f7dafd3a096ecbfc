// What the service adds to the engine: the same load over gRPC on this machine, and into an engine
// in this process, in turns.
//
// Usage: load_bench --model=FOLDER [--sessions=1,8,64] [--paths=512] ...
//
// S sessions, each with a connection of its own, draw B paths over T query rows again and again,
// each from one of several contexts. Before anything is timed, one call per context is made through
// both and must bring the same bytes twice. Prints one JSON line per S: values (paths times steps)
// a second, the time from a call's beginning to its first values, and the service's share of the
// engine's rate: medians over rounds.
//
// The server is that of the build, or what CHORALE_TEST_SERVER names; both run on the backend that
// CHORALE_TEST_BACKEND names (cpu).
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tests/bench/bench_session.h"
#include "tests/bench/sampler.h"

ABSL_FLAG(std::string, model, "models/default", "Folder of the model.");
ABSL_FLAG(std::vector<std::string>, sessions, (std::vector<std::string>{"1", "8", "64"}),
          "Numbers of sessions at a time.");
ABSL_FLAG(int, contexts, 8, "Contexts, in turns among the sessions.");
ABSL_FLAG(int64_t, rows, 1024, "Rows of a context.");
ABSL_FLAG(int64_t, paths, 512, "Paths of a call.");
ABSL_FLAG(int64_t, query_rows, 32, "Target rows of a call.");
ABSL_FLAG(int, rounds, 3, "Rounds, in each of which service and engine take turns.");
ABSL_FLAG(absl::Duration, warm_up, absl::Seconds(1), "Of a round, not counted.");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(4), "Of a round, counted.");
ABSL_FLAG(int64_t, context_pool_mib, 2048, "Context pool of either.");
ABSL_FLAG(int64_t, buffer_pool_mib, 4096, "Buffer pool of either.");
ABSL_FLAG(std::vector<std::string>, server_flags, {}, "Further flags for the server.");

namespace chorale {
namespace {

using Json = nlohmann::ordered_json;

struct Load {
  int contexts = 0;
  int64_t paths = 0;
  int64_t query_rows = 0;
};

// All values of one call, [paths, query rows].
std::vector<double> Draw(Sampler& sampler, int context, const Load& load, uint64_t seed) {
  std::vector<double> values(load.paths * load.query_rows);
  const std::atomic<bool> stop = false;
  int64_t came = 0;
  const absl::Status status =
      sampler.Sample(context, load.paths, seed, stop, [&](const DrawnBlock& block) {
        for (int64_t p = 0; p < block.paths; ++p) {
          std::copy_n(block.values.begin() + p * block.steps, block.steps,
                      values.begin() + (block.first_path + p) * load.query_rows + block.first_step);
        }
        came += block.paths * block.steps;
      });
  if (!status.ok()) Fail(status.ToString());
  if (came != load.paths * load.query_rows) Fail(absl::StrCat("a call brought ", came, " values"));
  return values;
}

// The same bytes from the engine, from the service, and from the service again.
void Validate(Target& engine, Target& service, const Load& load) {
  const std::unique_ptr<Sampler> of_engine = engine.NewSampler();
  const std::unique_ptr<Sampler> of_service = service.NewSampler();
  for (int context = 0; context < load.contexts; ++context) {
    const uint64_t seed = 100 + context;
    const std::vector<double> expected = Draw(*of_engine, context, load, seed);
    for (int time = 0; time < 2; ++time) {
      if (Draw(*of_service, context, load, seed) != expected) {
        Fail(absl::StrCat("the service draws other values than the engine from context ", context));
      }
    }
  }
}

struct Measured {
  double values_per_second = 0;
  double first_values_ms = 0;        // median
  double first_values_ms_worst = 0;  // 99th percentile
};

class Round {
 public:
  Round(Target& target, const Load& load, int sessions) : load_(load) {
    for (int session = 0; session < sessions; ++session) {
      samplers_.push_back(target.NewSampler());
    }
  }

  Measured Run() {
    std::vector<std::thread> threads;
    for (int session = 0; session < static_cast<int>(samplers_.size()); ++session) {
      threads.emplace_back([this, session] { KeepDrawing(session); });
    }
    absl::SleepFor(absl::GetFlag(FLAGS_warm_up));
    counting_ = true;
    const int64_t values_before = values_;
    const absl::Time start = absl::Now();
    absl::SleepFor(absl::GetFlag(FLAGS_duration));
    const int64_t drawn = values_ - values_before;
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
    return Result(static_cast<double>(drawn) / seconds);
  }

 private:
  void KeepDrawing(int session) {
    for (uint64_t call = 0; !stop_; ++call) {
      const absl::Time start = absl::Now();
      bool first = true;
      const absl::Status status = samplers_[session]->Sample(session % load_.contexts, load_.paths,
                                                             1 + session + 1000 * call, stop_,
                                                             [&](const DrawnBlock& block) {
                                                               if (first && counting_)
                                                                 AddFirst(absl::Now() - start);
                                                               first = false;
                                                               values_ += block.paths * block.steps;
                                                             });
      if (!status.ok() && !stop_) Fail(status.ToString());
    }
  }

  void AddFirst(absl::Duration time) {
    absl::MutexLock lock(&mutex_);
    first_values_ms_.push_back(absl::ToDoubleMilliseconds(time));
  }

  Measured Result(double rate) {
    absl::MutexLock lock(&mutex_);
    std::vector<double>& times = first_values_ms_;
    if (times.empty()) Fail("no call began while time was taken; --duration is too short");
    std::sort(times.begin(), times.end());
    return {.values_per_second = rate,
            .first_values_ms = times[times.size() / 2],
            .first_values_ms_worst = times[times.size() * 99 / 100]};
  }

  const Load load_;
  std::vector<std::unique_ptr<Sampler>> samplers_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> counting_ = false;
  std::atomic<int64_t> values_ = 0;
  absl::Mutex mutex_;
  std::vector<double> first_values_ms_ ABSL_GUARDED_BY(mutex_);
};

double MedianOf(const std::vector<Measured>& rounds, double Measured::*field) {
  std::vector<double> values;
  for (const Measured& round : rounds) values.push_back(round.*field);
  return Median(values);
}

Json Facts(const std::vector<Measured>& rounds) {
  return {{"values_per_second", MedianOf(rounds, &Measured::values_per_second)},
          {"first_values_ms", MedianOf(rounds, &Measured::first_values_ms)},
          {"first_values_ms_p99", MedianOf(rounds, &Measured::first_values_ms_worst)}};
}

void Measure(Target& engine, Target& service, const Load& load, int sessions) {
  std::vector<Measured> of_engine;
  std::vector<Measured> of_service;
  std::vector<double> shares;
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    of_engine.push_back(Round(engine, load, sessions).Run());
    of_service.push_back(Round(service, load, sessions).Run());
    shares.push_back(of_service.back().values_per_second / of_engine.back().values_per_second);
  }
  std::cout << Json({{"measure", "load"},
                     {"device", engine.description()},
                     {"sessions", sessions},
                     {"contexts", load.contexts},
                     {"Nctx", absl::GetFlag(FLAGS_rows)},
                     {"B", load.paths},
                     {"T", load.query_rows},
                     {"engine", Facts(of_engine)},
                     {"service", Facts(of_service)},
                     {"share_of_engine", Median(shares)}})
                   .dump()
            << std::endl;
}

int Main() {
  LoadOptions options;
  options.model = absl::GetFlag(FLAGS_model);
  options.server_flags = absl::GetFlag(FLAGS_server_flags);
  options.contexts = absl::GetFlag(FLAGS_contexts);
  options.rows = absl::GetFlag(FLAGS_rows);
  options.query_rows = absl::GetFlag(FLAGS_query_rows);
  options.context_pool_mib = absl::GetFlag(FLAGS_context_pool_mib);
  options.buffer_pool_mib = absl::GetFlag(FLAGS_buffer_pool_mib);
  const Load load = {.contexts = options.contexts,
                     .paths = absl::GetFlag(FLAGS_paths),
                     .query_rows = options.query_rows};
  const std::unique_ptr<Target> engine = StartEngineTarget(options);
  const std::unique_ptr<Target> service = StartServiceTarget(options);
  Validate(*engine, *service, load);
  for (const std::string& text : absl::GetFlag(FLAGS_sessions)) {
    int sessions = 0;
    if (!absl::SimpleAtoi(text, &sessions) || sessions < 1) {
      Fail(absl::StrCat("--sessions: '", text, "' is no number of sessions"));
    }
    Measure(*engine, *service, load, sessions);
  }
  return 0;
}

}  // namespace
}  // namespace chorale

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Compares service and engine; prints JSON lines.");
  absl::ParseCommandLine(argc, argv);
  return chorale::Main();
}
