#include "tests/engine/simulation/scenario.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/fault.h"
#include "base/notification.h"
#include "engine/session/random_key.h"
#include "gtest/gtest.h"
#include "tests/engine/simulation/simulated_call.h"
#include "tests/engine/simulation/simulated_engine.h"
#include "tests/support/random.h"
#include "tests/support/temp_folder.h"

namespace chorale::testing {
namespace {

// Clients, contexts and calls that follow from a seed, and what must hold.
class Scenario {
 public:
  explicit Scenario(uint64_t seed) : random_(seed) {
    options_.clock = &clock_;
    options_.max_queued = random_.OneOf({1, 4, 16, 64});
    options_.max_queue_wait = absl::Seconds(random_.OneOf({1, 5, 30}));
    options_.max_unacknowledged_values = random_.OneOf({1, 16, 256, 65'536});
    options_.max_unread = absl::Seconds(random_.OneOf({3, 60}));
    options_.max_running = random_.OneOf({1, 2, 8, 64});
    options_.target_tick = absl::Milliseconds(10);
    options_.max_slices_per_tick = random_.OneOf({1, 4, 16});
    options_.max_registered_bytes = random_.OneOf({0, 4, 1024}) << 10;
    backend_.tile_paths = random_.OneOf({1, 4, 32});
    backend_.density_tiles = random_.OneOf({1, 4});
    backend_.decodes_in_step = random_.Percent(50);
    backend_.context_pool_bytes = random_.OneOf({4, 16, 64}) << 10;
    backend_.buffer_pool_bytes = random_.OneOf({4, 64, 1024}) << 10;
    backend_.encode_steps = random_.OneOf({1, 3, 50});
    backend_.host_reaches_contexts = random_.Percent(30);
    if (!backend_.host_reaches_contexts && random_.Percent(60)) {
      backend_.host_context_pool_bytes = 8 << 10;
    }
    if (random_.Percent(20)) UseFiles();
    if (random_.Percent(50)) {
      backend_.encode_pool_bytes = 8 << 10;
      backend_.encode_bytes_per_row = 64;
      backend_.rows_bytes_per_row = 64;
      backend_.predict_bytes_per_row = 64;
    }
    store_log_.before_read = [this, unreadable = random_.OneOf({0, 0, 20}),
                              replaced = random_.OneOf({0, 5})] {
      store_log_.fail_reads = random_.Percent(unreadable);
      if (random_.Percent(replaced)) ChangeContext();
    };
    if (random_.Percent(30)) {
      SetFaults([this, percent = random_.OneOf({1, 10, 50})](FaultPlace place) {
        return place != FaultPlace::kDevice && random_.Percent(percent);
      });
    }
    const auto up_to = [this](absl::Duration most) {
      return [this, most] { return random_.UpTo(most); };
    };
    const SimulatedThreads threads = {.loader = up_to(absl::Milliseconds(50)),
                                      .summary = up_to(absl::Milliseconds(2)),
                                      .file_reader = up_to(absl::Milliseconds(20)),
                                      .file_writer = up_to(absl::Milliseconds(200))};
    engine_.emplace(&clock_, options_, backend_, SimulatedDevice(), threads, &device_log_,
                    &store_log_, &metrics_);
  }

  ~Scenario() { SetFaults(nullptr); }
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;

  void Run() {
    AddContexts();
    engine_->OnTick([this] { CheckTick(); });
    const int64_t calls = 1 + random_.Below(80);
    const bool together = random_.Percent(30);  // several arrive at the same time
    for (int64_t i = 0; i < calls; ++i) {
      const absl::Duration arrival = random_.UpTo(kArrivals);
      clock_.After(together ? absl::Trunc(arrival, absl::Seconds(1)) : arrival,
                   [this] { AddCall(); });
    }
    Sometimes(30, [this] { ChangeContext(); });
    Sometimes(30, [this] { ChangeContext(); });
    Sometimes(20, [this] { DeleteExpired(); });
    Sometimes(20, [this] { ShrinkPools(); });
    Sometimes(5, [this] {
      device_log_.fail = true;
      failed_ = clock_.Now();
    });
    Notification drained;
    if (random_.Percent(50)) {
      clock_.After(kArrivals, [&] {
        drain_deadline_ = clock_.Now() + random_.OneOf({0, 1, 100}) * absl::Seconds(1);
        engine_->impl().BeginDrain(drain_deadline_, &drained);
      });
    }
    clock_.After(kArrivals, [this] { StopOnceAllHaveEnded(); });
    engine_->Run();
    CheckEnd();
  }

 private:
  static constexpr absl::Duration kArrivals = absl::Seconds(10);
  // How soon an idle loop notices that the device has failed.
  static constexpr absl::Duration kDeviceCheck = absl::Seconds(1);

  struct Context {
    std::string tenant;
    std::string name;
    std::vector<std::string> versions = {};  // their digests, in order; empty: it is deleted
  };

  void UseFiles() {
    if (!backend_.host_reaches_contexts && backend_.host_context_pool_bytes == 0) return;
    options_.context_files_folder = folder_.emplace().path();
    options_.max_context_file_bytes = random_.OneOf({8, 1024}) << 10;
  }

  // Lets `event` happen once with this probability, while calls arrive.
  void Sometimes(int64_t percent, VirtualClock::Event event) {
    if (random_.Percent(percent)) clock_.After(random_.UpTo(kArrivals), std::move(event));
  }

  void AddContexts() {
    const int64_t clients = 1 + random_.Below(4);
    for (int64_t i = 0; i < clients; ++i) {
      shares_.push_back({absl::StrCat("client ", i), random_.OneOf({0.5, 1.0, 4.0})});
    }
    const int64_t contexts = 1 + random_.Below(8);
    for (int64_t i = 0; i < contexts; ++i) {
      contexts_.push_back({shares_[random_.Below(clients)].client, absl::StrCat("context-", i)});
      Register(&contexts_.back());
      ASSERT_EQ(contexts_.back().versions.size(), 1);
    }
  }

  // Fails if the context does not fit into a pool that has shrunk.
  void Register(Context* context) {
    const absl::Duration ttl =
        random_.Percent(20) ? random_.UpTo(kArrivals) : absl::InfiniteDuration();
    const absl::StatusOr<std::string> digest = engine_->Register(
        context->tenant, context->name, random_.OneOf({1, 5, 20, 60}) + random_.Below(4), ttl);
    if (digest.ok()) context->versions.push_back(*digest);
  }

  void ChangeContext() {
    Context& context = contexts_[random_.Below(std::ssize(contexts_))];
    if (random_.Percent(70)) {
      Register(&context);
    } else if (engine_->impl().DeleteContext(context.tenant, context.name).ok()) {
      context.versions.emplace_back();
    }
  }

  void DeleteExpired() {
    engine_->impl().Upkeep();
    for (Context& context : contexts_) {
      const bool gone = !engine_->impl().GetContext(context.tenant, context.name).ok();
      if (gone && !context.versions.back().empty()) context.versions.emplace_back();
    }
  }

  // For a while, as when the memory of the host runs short.
  void ShrinkPools() {
    const PoolSizes sizes = engine_->impl().Pools();
    PoolSizes smaller = sizes;
    smaller.context /= random_.OneOf({1, 2, 8});
    smaller.buffer /= random_.OneOf({1, 2, 8});
    smaller.registration /= random_.OneOf({1, 2, 8});
    engine_->impl().LimitPools(smaller);
    clock_.After(random_.UpTo(absl::Seconds(10)),
                 [this, sizes] { engine_->impl().LimitPools(sizes); });
  }

  void AddCall() {
    const Context& context = contexts_[random_.Below(std::ssize(contexts_))];
    auto call = std::make_shared<SimulatedCall>();
    calls_.push_back(call);
    call->context = context.name;
    call->first_version = context.versions.size() - 1;
    call->arrival = clock_.Now();
    if (random_.Percent(40)) {
      call->deadline = call->arrival + random_.UpTo(absl::Seconds(random_.OneOf({0, 1, 20})));
    }
    CallContext of_call = {.tenant = context.tenant,
                           .share = shares_[random_.Below(std::ssize(shares_))],
                           .deadline = call->deadline,
                           .report = [call](const CallReport& report) { call->report = report; }};
    if (random_.Percent(10)) of_call.max_resident_bytes = random_.OneOf({1, 4}) << 10;
    Send(call, std::move(of_call));
    if (random_.Percent(20)) {
      clock_.After(random_.UpTo(absl::Seconds(random_.OneOf({0, 3}))), [this, call] {
        call->cancelled = std::min(call->cancelled, clock_.Now());
        call->handle->Cancel();
      });
    }
  }

  // `size`: returns the number of results, which must be `expected`.
  template <typename Result>
  Callback<Result> Answer(const std::shared_ptr<SimulatedCall>& call, int64_t expected,
                          int64_t (*size)(const Result&)) {
    return [this, call, expected, size](const absl::StatusOr<Result>& result) {
      call->End(result.status(), clock_.Now());
      if (!result.ok()) return;
      call->digest = result->source.context_digest;
      EXPECT_EQ(size(*result), expected) << call->what;
    };
  }

  // A table of query rows, for a request to the context of the call.
  template <typename Request>
  Request RequestOf(const SimulatedCall& call, int64_t query_rows) {
    Request request;
    request.context = call.context;
    request.query_rows = SimulatedEngine::Rows(query_rows);
    return request;
  }

  void Send(const std::shared_ptr<SimulatedCall>& call, CallContext of_call) {
    EngineImpl& engine = engine_->impl();
    const int64_t query_rows = random_.OneOf({0, 1, 2, 7, 32, 32, 200});
    const int64_t paths = random_.OneOf({1, 3, 4, 33, 200});
    switch (random_.Below(6)) {
      case 0: {
        call->what = "Warm";
        const Residency residency =
            random_.Percent(pinned_) ? Residency::kPinned : Residency::kUntilEvicted;
        call->handle = engine.Warm(std::move(of_call), {call->context, residency},
                                   [this, call](const absl::StatusOr<ContextInfo>& info) {
                                     call->End(info.status(), clock_.Now());
                                     if (info.ok()) call->digest = info->record.digest;
                                   });
        return;
      }
      case 1: {
        call->what = absl::StrCat("Predict of ", query_rows * paths);
        auto request = RequestOf<PredictRequest>(*call, query_rows * paths);
        request.want_mixtures = random_.Percent(30);
        request.quantiles.resize(random_.Below(3), 0.5);
        call->handle = engine.Predict(
            std::move(of_call), std::move(request),
            Answer<PredictResult>(call, query_rows * paths,
                                  [](const auto& result) { return std::ssize(result.mean); }));
        return;
      }
      case 2: {
        call->what = absl::StrCat("LogDensity of ", paths, " times ", query_rows);
        auto request = RequestOf<LogDensityRequest>(*call, query_rows);
        request.beyond_buffer = BeyondBuffer::kWrap;
        request.vectors = paths;
        request.y.resize(paths * query_rows);
        request.seed = 1;
        if (random_.Percent(30)) request.random_orders = 3;
        call->handle = engine.LogDensity(
            std::move(of_call), std::move(request),
            Answer<LogDensityResult>(
                call, paths, [](const auto& result) { return std::ssize(result.log_density); }));
        return;
      }
      default:
        SendSample(call, std::move(of_call), query_rows, paths);
    }
  }

  void SendSample(const std::shared_ptr<SimulatedCall>& call, CallContext of_call,
                  int64_t query_rows, int64_t paths) {
    call->what = absl::StrCat("Sample of ", paths, " times ", query_rows);
    call->query_rows = query_rows;
    call->values.resize(paths);
    auto request = RequestOf<SampleRequest>(*call, query_rows);
    request.snapping = Snapping::kOff;
    request.beyond_buffer = BeyondBuffer::kWrap;
    request.want_log_densities = random_.Percent(30);
    request.paths = paths;
    request.seed = call->seed = random_.Below(1000);
    const absl::Duration reading = absl::Milliseconds(random_.OneOf({0, 1, 200}));
    const int64_t read_at_most = random_.Percent(10) ? random_.Below(100) : paths * query_rows;
    auto read = [this, weak = std::weak_ptr(call), reading, read_at_most,
                 read = int64_t{0}](int64_t values) mutable {
      values = std::min(values, read_at_most - read);
      read += values;
      if (values == 0) return;
      clock_.After(reading, [weak, values] {
        if (const auto reader = weak.lock()) reader->handle->Acknowledge(values);
      });
    };
    call->handle =
        engine_->impl().Sample(std::move(of_call), std::move(request),
                               std::make_shared<SimulatedObserver>(call, &clock_, std::move(read)));
  }

  void StopOnceAllHaveEnded() {
    const bool all_ended =
        std::all_of(calls_.begin(), calls_.end(), [](const auto& call) { return call->ends > 0; });
    if (all_ended || clock_.Now() > begin_ + kLongest) {
      open_at_stop_ = !all_ended;
      engine_->Stop();
    } else {
      clock_.After(absl::Seconds(1), [this] { StopOnceAllHaveEnded(); });
    }
  }

  void CheckTick() {
    const EngineStats stats = engine_->impl().Stats();
    EXPECT_LE(stats.running, options_.max_running);
    EXPECT_LE(stats.queued, options_.max_queued);
    EXPECT_LE(stats.buffer_bytes, backend_.buffer_pool_bytes);
    EXPECT_LE(stats.resident_bytes, backend_.context_pool_bytes);
    EXPECT_LE(stats.encode_bytes, backend_.encode_pool_bytes);
    EXPECT_LE(stats.registration_bytes, options_.max_registered_bytes);
    EXPECT_TRUE(stats.running > 0 || stats.buffer_bytes == 0);
    const auto open = absl::c_count_if(calls_, [](const auto& call) { return call->ends == 0; });
    EXPECT_GE(stats.running + stats.queued, open) << "neither runs nor has a slot of the queue";
    // The engine itself warms a context again that was pinned when another replaced it.
    EXPECT_TRUE(pinned_ > 0 || stats.running + stats.queued == open);
  }

  void CheckEnd() {
    EXPECT_FALSE(open_at_stop_) << "calls were open after " << kLongest;
    for (const auto& call : calls_) CheckCall(*call);
    const EngineStats stats = engine_->impl().Stats();
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.queued, 0);
    EXPECT_EQ(stats.buffer_bytes, 0);
    EXPECT_EQ(stats.encode_bytes, 0);
    EXPECT_EQ(stats.resident_bytes, 0) << "the cache was cleared";
  }

  void CheckCall(const SimulatedCall& call) {
    SCOPED_TRACE(absl::StrCat(call.what, " at ", absl::FormatDuration(call.arrival - begin_), ": ",
                              call.status.ToString()));
    EXPECT_EQ(call.ends, 1);
    // The loop looks at deadlines and cancellations between two ticks.
    const absl::Duration slack = engine_->longest_tick();
    EXPECT_GE(call.end, call.arrival);
    EXPECT_LE(call.end, std::max(call.deadline, call.arrival) + slack);
    EXPECT_LE(call.end, std::max(call.cancelled, call.arrival) + slack);
    EXPECT_LE(call.end, std::max(failed_, call.arrival) + kDeviceCheck + slack);
    EXPECT_LE(call.end, std::max(drain_deadline_, call.arrival) + slack);
    EXPECT_LE(call.report.queued, options_.max_queue_wait + slack);
    CheckVersion(call);
    if (call.status.ok() && !call.values.empty()) CheckValues(call);
  }

  // A call is answered by the version of its context that was the latest when it arrived, or by a
  // later one.
  void CheckVersion(const SimulatedCall& call) {
    if (!call.status.ok() && !absl::IsNotFound(call.status)) return;
    const auto context = absl::c_find_if(
        contexts_, [&](const Context& context) { return context.name == call.context; });
    const absl::Span<const std::string> possible =
        absl::MakeSpan(context->versions).subspan(call.first_version);
    EXPECT_TRUE(absl::c_linear_search(possible, call.status.ok() ? call.digest : ""));
  }

  void CheckValues(const SimulatedCall& call) const {
    const uint64_t key = RandomKey(call.seed, {call.digest, engine_->model_digest()});
    for (size_t path = 0; path < call.values.size(); ++path) {
      ASSERT_EQ(std::ssize(call.values[path]), call.query_rows);
      for (int64_t step = 0; step < call.query_rows; ++step) {
        ASSERT_EQ(call.values[path][step], FakeValue(key, static_cast<int64_t>(path), step));
      }
    }
  }

  // Longer than a slow reader takes for each value of the largest Sample.
  static constexpr absl::Duration kLongest = absl::Hours(24);

  Random random_;
  VirtualClock clock_;
  const absl::Time begin_ = clock_.Now();
  EngineOptions options_;
  FakeBackendOptions backend_;
  FakeBackendLog device_log_;
  FakeStoreLog store_log_;
  std::optional<TempFolder> folder_;  // of files
  MetricsSink metrics_;
  std::vector<ClientShare> shares_;
  std::vector<std::shared_ptr<SimulatedCall>> calls_;
  std::optional<SimulatedEngine> engine_;
  std::vector<Context> contexts_;
  absl::Time failed_ = absl::InfiniteFuture();
  absl::Time drain_deadline_ = absl::InfiniteFuture();
  bool open_at_stop_ = false;
  int64_t pinned_ = random_.OneOf({0, 0, 10});  // percentage of contexts that Warm pins
};

}  // namespace

void RunScenario(uint64_t seed) { Scenario(seed).Run(); }

}  // namespace chorale::testing
