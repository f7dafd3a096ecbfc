#include "client/cli/bench_load.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <exception>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/require.h"
#include "base/status_macros.h"

namespace chorale::client {
namespace {

// Collects the measurements of all clients of a run. Thread-safe.
class Recorder {
 public:
  // Counts events from now on, until Stop.
  void Start() {
    MutexLock lock(&mutex_);
    counting_ = true;
    start_ = Clock::Real()->Now();
  }

  BenchResult Stop() {
    MutexLock lock(&mutex_);
    counting_ = false;
    const double seconds = absl::ToDoubleSeconds(Clock::Real()->Now() - start_);
    result_.calls_per_second = static_cast<double>(result_.call_ms.size()) / seconds;
    result_.values_per_second = static_cast<double>(values_) / seconds;
    std::sort(result_.first_values_ms.begin(), result_.first_values_ms.end());
    std::sort(result_.call_ms.begin(), result_.call_ms.end());
    return std::move(result_);
  }

  void AddValues(int64_t count) {
    MutexLock lock(&mutex_);
    if (counting_) values_ += count;
  }
  void AddFirstValues(absl::Duration time) {
    MutexLock lock(&mutex_);
    if (counting_) result_.first_values_ms.push_back(absl::ToDoubleMilliseconds(time));
  }
  void AddCall(absl::Duration time) {
    MutexLock lock(&mutex_);
    if (counting_) result_.call_ms.push_back(absl::ToDoubleMilliseconds(time));
  }
  void AddFailedAttempt(const absl::Status& why) {
    MutexLock lock(&mutex_);
    if (!counting_) return;
    ++(absl::IsUnavailable(why) ? result_.unavailable : result_.refused);
  }

 private:
  Mutex mutex_;
  bool counting_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time start_ ABSL_GUARDED_BY(mutex_);
  int64_t values_ ABSL_GUARDED_BY(mutex_) = 0;
  BenchResult result_ ABSL_GUARDED_BY(mutex_);
};

// The content of all calls. Immutable, so that all clients can share it.
struct BenchInput {
  explicit BenchInput(const BenchLoad& load)
      : queries(BenchTable(-1, load.query_rows, load.features)),
        vectors(load.method == BenchLoad::Method::kLogDensity ? load.paths * load.query_rows : 0) {
    queries.Remove({"y"});
  }

  DataFrame queries;
  std::vector<double> vectors;  // [paths, query_rows]: zeros; the values do not affect the time
};

// A client of the load. Used by one thread.
class BenchClient {
 public:
  BenchClient(const BenchLoad& load, const BenchInput& input, int index,
              std::unique_ptr<Client> client, const CallOptions& call, Recorder* recorder)
      : load_(load),
        context_(load.contexts[index % load.contexts.size()]),
        client_(std::move(client)),
        call_(call),
        recorder_(recorder),
        input_(input),
        next_seed_(1 + (uint64_t{1} << 32) * index) {}

  // Makes calls until a permanent error or the cancellation. Throws no exceptions.
  absl::Status Run() {
    try {
      return CallInTurn();
    } catch (const std::exception& error) {  // such as std::bad_alloc for large requests
      return absl::ResourceExhaustedError(absl::StrCat("bench: ", error.what()));
    }
  }

 private:
  absl::Status CallInTurn() {
    while (!call_.cancellation->cancelled()) {
      const absl::Time start = Clock::Real()->Now();
      absl::Status status = CallOnce(start);
      if (status.ok()) {
        recorder_->AddCall(Clock::Real()->Now() - start);
      } else if (IsTransient(status)) {
        // Counts the last attempt; on_retry counted the others. Waits as before a retry.
        recorder_->AddFailedAttempt(status);
        SleepUntil(
            Clock::Real()->Now() + DelayAfter(/*failed_attempts=*/1, status, {}, /*jitter=*/0.0),
            {call_.cancellation});
      } else {
        return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CallOnce(absl::Time start) {
    switch (load_.method) {
      case BenchLoad::Method::kSample:
        return Sample(start);
      case BenchLoad::Method::kPredict:
        return CountIfOk(client_->Predict(context_, input_.queries, {}, call_).status(),
                         load_.query_rows);
      case BenchLoad::Method::kLogDensity:
        return CountIfOk(
            client_->LogDensity(context_, input_.queries, input_.vectors, {}, call_).status(),
            load_.paths * load_.query_rows);
    }
    return absl::InternalError("unknown method");
  }

  absl::Status Sample(absl::Time start) {
    bool first = true;
    return client_
        ->SampleStream(
            context_, input_.queries, {.path_count = load_.paths, .seed = next_seed_++},
            [&](const v1::SampleBlock& block) {
              if (std::exchange(first, false))
                recorder_->AddFirstValues(Clock::Real()->Now() - start);
              recorder_->AddValues(block.values_size());
              return absl::OkStatus();
            },
            call_)
        .status();
  }

  absl::Status CountIfOk(absl::Status status, int64_t values) {
    if (status.ok()) recorder_->AddValues(values);
    return status;
  }

  const BenchLoad& load_;
  const std::string context_;
  const std::unique_ptr<Client> client_;
  const CallOptions call_;
  Recorder* const recorder_;
  const BenchInput& input_;
  uint64_t next_seed_;
};

}  // namespace

DataFrame BenchTable(int64_t table, int64_t rows, int64_t features) {
  std::minstd_rand random(static_cast<uint32_t>(table + 2));
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  DataFrame frame;
  bool columns_are_good = true;
  std::vector<double> target(rows);
  for (int64_t feature = 0; feature < features; ++feature) {
    std::vector<double> values(rows);
    for (int64_t row = 0; row < rows; ++row) {
      values[row] = uniform(random);
      target[row] += std::sin(2.0 * values[row] + static_cast<double>(feature));
    }
    columns_are_good &= frame.AddNumeric(absl::StrCat("x", feature), std::move(values)).ok();
  }
  columns_are_good &= frame.AddNumeric("y", std::move(target)).ok();
  Require(columns_are_good, "a table of the load has finite values and distinct names");
  return frame;
}

absl::StatusOr<BenchResult> RunBench(const BenchLoad& load, int concurrency,
                                     const ConnectClient& connect, const CallOptions& call) {
  const BenchInput input(load);
  Recorder recorder;
  Cancellation over;
  std::deque<BenchClient> clients;
  for (int index = 0; index < concurrency; ++index) {
    ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                     connect([&recorder](const absl::Status& why, absl::Duration) {
                       recorder.AddFailedAttempt(why);
                     }));
    clients.emplace_back(load, input, index, std::move(client),
                         CallOptions{.timeout = call.timeout, .cancellation = &over}, &recorder);
  }
  std::vector<absl::Status> statuses(concurrency);
  std::vector<std::thread> threads;
  threads.reserve(concurrency);
  try {
    for (int index = 0; index < concurrency; ++index) {
      threads.emplace_back([&, index] {
        statuses[index] = clients[index].Run();
        if (!statuses[index].ok() && !absl::IsCancelled(statuses[index])) over.Cancel();
      });
    }
  } catch (const std::system_error& error) {  // at the system's limit of threads
    over.Cancel();
    statuses.back() = absl::InvalidArgumentError(
        absl::StrCat("--concurrency: only ", threads.size(), " of ", concurrency,
                     " threads could be started: ", error.what()));
  }
  SleepUntil(Clock::Real()->Now() + load.warm_up, {call.cancellation, &over});
  recorder.Start();
  SleepUntil(Clock::Real()->Now() + load.duration, {call.cancellation, &over});
  BenchResult result = recorder.Stop();
  over.Cancel();
  for (std::thread& thread : threads) thread.join();
  if (call.cancellation->cancelled()) return absl::CancelledError("cancelled");
  for (absl::Status& status : statuses) {
    if (!status.ok() && !absl::IsCancelled(status)) return std::move(status);
  }
  return result;
}

double Percentile(const std::vector<double>& sorted, double p) {
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace chorale::client
