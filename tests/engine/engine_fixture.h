// An engine over a fake backend and a fake store, and recorders of what callers hear.
#ifndef CHORALE_TESTS_ENGINE_ENGINE_FIXTURE_H_
#define CHORALE_TESTS_ENGINE_ENGINE_FIXTURE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/notification.h"
#include "engine/api/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/fake_backend.h"
#include "tests/engine/fake_store.h"
#include "tests/support/eventually.h"
#include "tests/support/skippable_clock.h"

namespace chorale::testing {

// Counts and last values. Thread-safe.
class RecordingMetrics : public MetricsSink {
 public:
  void TimeToFirstStep(absl::Duration time) override { ++first_steps; }
  void StepTimes(absl::Duration each, int64_t count) override { tile_steps += count; }
  void EncodeTime(absl::Duration time) override { ++encodings; }
  void RestoreTime(absl::Duration time) override { ++restores; }
  void QueueTime(absl::Duration time) override { ++admissions; }
  void Eviction(EvictionReason reason) override {
    ++(reason == EvictionReason::kHostPoolFull ? dropped_from_host : evictions);
  }
  void Lookup(ContextLookup result) override { ++lookups[static_cast<size_t>(result)]; }
  void Rejected(const char* reason) override {
    MutexLock lock(&mutex_);
    ++rejected_[reason];
  }
  void Values(WorkKind kind, const std::string& tenant, const std::string& model,
              int64_t count) override {
    values[static_cast<int>(kind)] += count;
    MutexLock lock(&mutex_);
    values_of_[tenant + "/" + model] += count;
  }
  void Flops(WorkKind kind, double count) override {
    MutexLock lock(&mutex_);
    flops_[static_cast<int>(kind)] += count;
  }
  void EngineTime(const std::string& tenant, absl::Duration time) override {
    MutexLock lock(&mutex_);
    engine_time_[tenant] += time;
  }
  void TickTime(absl::Duration time, int64_t slices) override {
    MutexLock lock(&mutex_);
    tick_time_ += time;
  }
  void SummaryTime(absl::Duration time) override { ++summaries; }
  void UnreadStream() override { ++unread_streams; }
  void EncodedRows(const std::string& model, int64_t rows) override { encoded_rows += rows; }
  void MemorySetKeys(MemoryPolicy policy, int64_t keys) override {
    memory_set_keys[static_cast<size_t>(policy)] += keys;
  }

  void AppendedRows(int64_t rows) override {
    ++appends;
    appended_rows += rows;
  }
  void EncodedAnew(EncodedAnewOutcome outcome) override {
    ++encoded_anew[static_cast<size_t>(outcome)];
  }

  int64_t values_of(WorkKind kind) const { return values[static_cast<int>(kind)]; }
  int64_t values_of(const std::string& tenant_and_model) {
    MutexLock lock(&mutex_);
    return values_of_[tenant_and_model];
  }
  double flops(WorkKind kind) {
    MutexLock lock(&mutex_);
    return flops_[static_cast<int>(kind)];
  }
  absl::Duration engine_time(const std::string& tenant) {
    MutexLock lock(&mutex_);
    return engine_time_[tenant];
  }
  absl::Duration tick_time() {
    MutexLock lock(&mutex_);
    return tick_time_;
  }
  int64_t rejected(const std::string& reason) {
    MutexLock lock(&mutex_);
    return rejected_[reason];
  }

  std::atomic<int64_t> first_steps{0}, tile_steps{0}, encodings{0}, restores{0}, admissions{0},
      evictions{0}, summaries{0}, unread_streams{0}, encoded_rows{0}, dropped_from_host{0},
      appends{0}, appended_rows{0};
  std::array<std::atomic<int64_t>, 4> lookups{};          // by ContextLookup
  std::array<std::atomic<int64_t>, 4> memory_set_keys{};  // by MemoryPolicy
  std::array<std::atomic<int64_t>, 3> encoded_anew{};     // by EncodedAnewOutcome

 private:
  static constexpr size_t kWorkKinds = 6;
  std::array<std::atomic<int64_t>, kWorkKinds> values{};
  Mutex mutex_;
  std::map<std::string, int64_t> rejected_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> values_of_ ABSL_GUARDED_BY(mutex_);
  std::array<double, kWorkKinds> flops_ ABSL_GUARDED_BY(mutex_) = {};
  std::map<std::string, absl::Duration> engine_time_ ABSL_GUARDED_BY(mutex_);
  absl::Duration tick_time_ ABSL_GUARDED_BY(mutex_);
};

// What a callback heard. Thread-safe.
template <typename Result>
class Answer {
 public:
  Callback<Result> callback() {
    return [state = state_](absl::StatusOr<Result> result) {
      MutexLock lock(&state->mutex);
      EXPECT_FALSE(state->result.has_value()) << "a callback came twice";
      state->result = std::move(result);
      state->changed.NotifyAll();
    };
  }
  absl::StatusOr<Result> Wait() {
    MutexLock lock(&state_->mutex);
    while (!state_->result.has_value()) state_->changed.Wait(&state_->mutex);
    return *state_->result;
  }
  bool has_come() {
    MutexLock lock(&state_->mutex);
    return state_->result.has_value();
  }

 private:
  struct State {
    Mutex mutex;
    CondVar changed;
    std::optional<absl::StatusOr<Result>> result ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// What a Sample's observer heard. Thread-safe.
class SampleRecorder : public SampleObserver {
 public:
  void OnBlock(SampleBlock block) override;
  void OnDone(const absl::Status& status, const SampleSummary& summary) override;

  // Called for every block, on the engine thread.
  std::function<void(const SampleBlock&)> on_block;
  // Called on the engine thread when the stream ends.
  std::function<void()> on_done;

  absl::Status Wait();
  void WaitForValues(int64_t count);
  bool is_done();
  int64_t values();  // so far
  std::vector<SampleBlock> blocks();
  SampleSummary summary();
  // [B, T] by query row, from all blocks; NaN where none came. Checks that none came twice.
  std::vector<double> ByTarget(int64_t paths, int64_t query_rows);
  std::vector<double> LogDensityOfPaths(int64_t paths);  // sums

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<SampleBlock> blocks_ ABSL_GUARDED_BY(mutex_);
  int64_t values_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
  SampleSummary summary_ ABSL_GUARDED_BY(mutex_);
};

// `rows` rows of features "a" and "b" and target "y".
Dataset MakeDataset(int64_t rows, uint64_t seed = 1);
Table MakeTargets(int64_t rows, uint64_t seed = 2);

// Every test must leave the engine idle: at the end, nothing runs, waits or holds memory.
class EngineFixture : public ::testing::Test {
 protected:
  static constexpr char kTenant[] = "tenant";

  EngineFixture();
  void TearDown() override;

  // Lets time pass until the condition holds; `step` is less than any limit that must not pass.
  template <typename Condition>
  [[nodiscard]] bool SkipUntil(absl::Duration step, const Condition& condition) {
    return Eventually([&] {
      if (condition()) return true;
      clock_.Skip(step);
      return false;
    });
  }

  // Call once, after changing options.
  void StartEngine();
  void Register(const std::string& name, int64_t rows = 10, uint64_t seed = 1);
  void MakeResident(const std::string& name);

  SampleRequest SampleOf(const std::string& context, int64_t paths, int64_t query_rows,
                         std::optional<uint64_t> seed = 7) const;
  LogDensityRequest DensityOf(const std::string& context, int64_t vectors,
                              int64_t query_rows) const;
  PredictRequest PredictOf(const std::string& context, int64_t query_rows) const;
  ContextState StateOf(const std::string& name);

  SkippableClock clock_;  // of the engine
  const CallContext call_{.tenant = kTenant};
  FakeBackendOptions backend_options_;
  EngineOptions options_;
  Model model_;
  FakeBackendLog backend_;
  FakeStoreLog store_;
  RecordingMetrics metrics_;
  std::unique_ptr<Engine> engine_;
};

#define EXPECT_EVENTUALLY(condition) \
  EXPECT_TRUE(Eventually([&] { return (condition); })) << "never: " #condition

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_ENGINE_FIXTURE_H_
