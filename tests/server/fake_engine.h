// A fake engine that tests control.
#ifndef CHORALE_TESTS_SERVER_FAKE_ENGINE_H_
#define CHORALE_TESTS_SERVER_FAKE_ENGINE_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "engine/api/engine.h"
#include "tests/support/eventually.h"

namespace chorale {

// The engine's side of a request in flight. The test ends it; Cancel also ends it, with CANCELLED,
// on another thread, as the real engine does. One that has ended holds nothing of its request: the
// server may keep it for ever, if the request ended before the server had it. Thread-safe.
class FakeCall : public Call, public std::enable_shared_from_this<FakeCall> {
 public:
  explicit FakeCall(std::function<void(const absl::Status&)> end) : end_(std::move(end)) {}
  ~FakeCall() override;

  void Cancel() override;
  void Acknowledge(int64_t values) override { acknowledged_ += values; }

  // Ends the request unless it has ended.
  void End(const absl::Status& status);
  // Marks the request as ended; false if it has ended before.
  bool MarkEnded();

  int cancels() const { return cancels_; }
  int64_t acknowledged() const { return acknowledged_; }

 private:
  std::atomic<int> cancels_{0};
  std::atomic<int64_t> acknowledged_{0};
  std::atomic<bool> ended_{false};
  std::function<void(const absl::Status&)> end_;  // of whoever sets ended_
  std::thread canceller_;
};

// A Sample in flight.
// A block of paths x steps values: path * 1000 + step.
SampleBlock MakeBlock(int64_t first_path, int64_t paths, int64_t first_step, int64_t steps);

struct FakeSample {
  SampleRequest request;
  std::shared_ptr<SampleObserver> observer;
  std::shared_ptr<FakeCall> call;
  SampleSummary summary;

  // Delivers a block of MakeBlock.
  void Draw(int64_t first_path, int64_t paths, int64_t first_step, int64_t steps) const;
};

// Thread-safe.
class FakeEngine : public Engine {
 public:
  // The results of the methods. Set before the server admits calls. Without a result, Predict,
  // Summarize, LogDensity and Warm stay in flight until they are cancelled.
  std::function<absl::StatusOr<PredictResult>(const PredictRequest&)> on_predict;
  std::function<absl::StatusOr<SummarizeResult>(const SummarizeRequest&)> on_summarize;
  std::function<absl::StatusOr<LogDensityResult>(const LogDensityRequest&)> on_log_density;
  std::function<absl::StatusOr<ContextInfo>(const std::string&)> on_warm;
  std::function<absl::StatusOr<std::vector<ContextSize>>(int64_t)> on_newest;
  std::function<absl::StatusOr<RegisterOutcome>(const RegisterRequest&, const Dataset&)>
      on_register;
  std::function<absl::StatusOr<AppendOutcome>(const AppendRequest&, const Table&)> on_append;
  std::function<absl::StatusOr<ContextInfo>(const std::string& name)> on_get;
  std::function<absl::StatusOr<ContextInfoPage>(const ContextQuery&, PageLimits,
                                                const std::string&)>
      on_list;
  std::function<absl::Status(const std::string& name, const DeleteTerms&)> on_delete;
  std::function<absl::StatusOr<StoreTotals>()> on_registered;
  std::vector<ModelInfo> models;  // the default first
  const Clock* clock = Clock::Real();
  int64_t pool_bytes = 1000;
  EngineStats stats;
  // What the engine reports of every request, as soon as it ends. Arrival and end are filled in.
  CallReport report;

  // Waits for the next Sample; null if none arrives in time.
  std::shared_ptr<FakeSample> NextSample(absl::Duration patience = kPatience);
  // Waits until that many requests have begun; false after ten seconds.
  bool WaitForBegun(int64_t count);

  std::vector<ModelInfo> Models() const override {
    MutexLock lock(&mutex_);
    return models;
  }
  // These refuse what the real engine refuses; a model named "too-large" does not fit, and one
  // named "wide" needs a library.
  std::atomic<bool> has_library{false};
  absl::StatusOr<ModelOutcome> AddModel(const Model& model) override;
  std::vector<SkippedModel> SkippedModels() const override {
    MutexLock lock(&mutex_);
    return skipped_;
  }
  void SetSkippedModels(std::vector<SkippedModel> models) override {
    MutexLock lock(&mutex_);
    skipped_ = std::move(models);
  }
  absl::Status RemoveModel(const std::string& name) override;
  absl::Status SetDefaultModel(const std::string& name) override;
  absl::StatusOr<RegisterOutcome> Register(const std::string& tenant,
                                           const RegisterRequest& request, const Dataset& dataset,
                                           const StoreQuota& quota) override;
  absl::StatusOr<AppendOutcome> Append(const std::string& tenant, const AppendRequest& request,
                                       const Table& rows, const StoreQuota& quota) override;
  absl::StatusOr<ContextInfo> GetContext(const std::string& tenant,
                                         const std::string& name) override;
  absl::StatusOr<ContextInfoPage> ListContexts(const std::string& tenant, const ContextQuery& query,
                                               PageLimits limits,
                                               const std::string& page_token) override;
  absl::Status DeleteContext(const std::string& tenant, const std::string& name,
                             const DeleteTerms& terms) override;
  std::shared_ptr<Call> Warm(CallContext call, WarmRequest request,
                             Callback<ContextInfo> done) override;
  absl::StatusOr<std::vector<ContextSize>> NewestContexts(int64_t limit) override;
  std::shared_ptr<Call> Predict(CallContext call, PredictRequest request,
                                Callback<PredictResult> done) override;
  std::shared_ptr<Call> Sample(CallContext call, SampleRequest request,
                               std::shared_ptr<SampleObserver> observer) override;
  std::shared_ptr<Call> Summarize(CallContext call, SummarizeRequest request,
                                  Callback<SummarizeResult> done) override;
  std::shared_ptr<Call> LogDensity(CallContext call, LogDensityRequest request,
                                   Callback<LogDensityResult> done) override;
  void LimitPools(const PoolSizes& sizes) override {
    MutexLock lock(&mutex_);
    pool_limits_ = sizes;
  }
  PoolSizes pool_limits() const {
    MutexLock lock(&mutex_);
    return pool_limits_;
  }
  void SetLimits(const Limits& limits) override {
    MutexLock lock(&mutex_);
    limits_ = limits;
  }
  Limits limits() {
    MutexLock lock(&mutex_);
    return limits_;
  }
  void Drain(absl::Time deadline) override;
  EngineStats Stats() const override { return stats; }
  PoolSizes Pools() const override { return {.context = pool_bytes, .buffer = 2000}; }
  absl::StatusOr<StoreTotals> Registered() override {
    return on_registered ? on_registered() : StoreTotals{3, 4000, 5000};
  }
  BackendInfo backend_info() const override { return {"cpu", "fake", 2}; }
  std::atomic<bool> has_memory_sets{false};
  bool memory_sets() const override { return has_memory_sets; }
  std::atomic<bool> has_appends{false};
  bool appends() const override { return has_appends; }
  std::vector<DeviceMemoryPart> DeviceMemory() const override { return {{"weights", 77}}; }
  std::string backend_description() const override { return "fake"; }
  absl::Status Health() const override {
    return failed_ ? absl::UnavailableError("the device failed") : absl::OkStatus();
  }
  // Makes Health return an error from now on.
  void Fail() { failed_ = true; }
  absl::Status StoreHealth() const override {
    if (on_store_health) on_store_health();
    return store_lost ? absl::UnavailableError("the store is lost") : absl::OkStatus();
  }
  std::atomic<bool> store_lost{false};
  std::function<void()> on_store_health;
  std::atomic<int> encodings_anew{0};  // requests of Warm with encode_anew
  // The contexts that Warm pins, in order.
  std::vector<std::string> pinned();
  // Of the request that began last, without the reporter.
  CallContext last_call();

 private:
  // A unary request: ends at once if there is a result, else stays in flight.
  template <typename Result>
  std::shared_ptr<Call> Begin(CallContext call, Callback<Result> done,
                              const absl::StatusOr<Result>* answer);
  // The reporter of the call, with what it will be told.
  std::function<void()> Report(CallContext call);
  void Began(const std::shared_ptr<FakeCall>& call);
  void Ended();

  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<SkippedModel> skipped_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<FakeSample>> samples_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<FakeCall>> calls_ ABSL_GUARDED_BY(mutex_);
  Limits limits_ ABSL_GUARDED_BY(mutex_);
  PoolSizes pool_limits_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> pinned_ ABSL_GUARDED_BY(mutex_);
  CallContext last_call_ ABSL_GUARDED_BY(mutex_);
  int64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_SERVER_FAKE_ENGINE_H_
