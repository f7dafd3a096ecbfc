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
#include "tests/engine/simulation/random_requests.h"
#include "tests/engine/simulation/scenario_options.h"
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
    if (random_.Percent(50)) UseFiles();
    store_log_.before_read = [this, unreadable = random_.OneOf({0, 0, 20}),
                              replaced = random_.OneOf({0, 5})] {
      store_log_.fail_reads = random_.Percent(unreadable);
      // Only the loader reads while the context may change.
      if (!changing_ && engine_->loader_runs() && random_.Percent(replaced)) ChangeContext();
    };
    store_log_.after_put = [this](const ContextRecord& record) { NoteVersion(record); };
    if (random_.Percent(30)) {
      SetFaults([this, percent = random_.OneOf({1, 10, 50})](FaultPlace place) {
        return place != FaultPlace::kDevice && random_.Percent(percent);
      });
    }
    const auto up_to = [this](absl::Duration most) {
      return [this, most] { return random_.UpTo(most); };
    };
    const SimulatedThreads threads = {
        .loader = up_to(absl::Milliseconds(50)),
        .parts = up_to(absl::Milliseconds(100)),
        .summary = up_to(absl::Milliseconds(2)),
        .anew = up_to(absl::Milliseconds(100)),
        .file_reader = up_to(absl::Milliseconds(20)),
        .file_writer = up_to(
            random_.OneOf({absl::Milliseconds(5), absl::Milliseconds(200), absl::Seconds(20)}))};
    engine_.emplace(&clock_, options_, backend_, SimulatedDevice(), threads, &device_log_,
                    &store_log_, &metrics_);
    requests_.emplace(&random_, &clock_, &*engine_,
                      RequestLimits{.max_unacknowledged_values =
                                        options_.max_unacknowledged_values + backend_.tile_paths,
                                    .pinned_percent = pinned_,
                                    .anew_percent = appends_});
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
    for (int i = 0; i < 2 + appends_ / 10; ++i) Sometimes(30, [this] { ChangeContext(); });
    Sometimes(20, [this] { DeleteExpired(); });
    Sometimes(40, [this] { ShrinkPools(); });
    Sometimes(5, [this] {
      device_log_.fail = true;
      failed_ = clock_.Now();
    });
    if (random_.Percent(50)) {
      clock_.After(random_.Percent(50) ? kArrivals : random_.UpTo(kArrivals), [&] {
        drain_begin_ = clock_.Now();
        drain_deadline_ = drain_begin_ + random_.OneOf({0, 1, 100}) * absl::Seconds(1);
        engine_->impl().BeginDrain(drain_deadline_, &drained_);
      });
    }
    clock_.After(kArrivals, [this] { StopOnceAllHaveEnded(); });
    engine_->Run();
    if (!::testing::Test::HasFailure()) CheckEnd();
  }

 private:
  static constexpr absl::Duration kArrivals = absl::Seconds(10);
  // How soon an idle loop notices that the device has failed.
  static constexpr absl::Duration kDeviceCheck = absl::Seconds(1);

  // The longest time to find a context, in which it may be replaced.
  static constexpr absl::Duration kFinding = absl::Milliseconds(200);

  struct Context {
    std::string tenant;
    std::string name;
    std::vector<std::string> versions = {};  // their digests, in order; empty: it is deleted
    int64_t rows = 0;                        // of the latest version
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
      const ContextShape shape = RandomShape(backend_, &random_);
      Register(&contexts_.back(), Unsupported(shape) ? ContextShape{.rows = 20} : shape);
      ASSERT_EQ(contexts_.back().versions.size(), 1);
    }
  }

  // Whether the device cannot reduce a context to this shape.
  bool Unsupported(const ContextShape& shape) const {
    return shape.reduced() && !backend_.memory_sets;
  }

  // Fails if the device cannot reduce the context, or if it does not fit into a pool that has
  // shrunk.
  void Register(Context* context, const ContextShape& shape) {
    const absl::Duration ttl =
        random_.Percent(20) ? random_.UpTo(kArrivals) : absl::InfiniteDuration();
    new_rows_ = shape.rows;
    const auto digest = engine_->Register(context->tenant, context->name, shape, ttl);
    new_rows_.reset();
    EXPECT_FALSE(digest.ok() && Unsupported(shape));
    EXPECT_TRUE(!digest.ok() || context->versions.back() == *digest);
  }

  // Fails if the device does not support it, or the rows cannot be read or do not fit.
  void Append(Context* context) {
    const bool nested = std::exchange(changing_, true);
    const int64_t rows = random_.OneOf({1, 1, 3, 10});
    new_rows_ = context->rows + rows;
    const auto digest = engine_->Append(context->tenant, context->name, rows);
    new_rows_.reset();
    EXPECT_FALSE(digest.ok() && !backend_.appends);
    EXPECT_TRUE(!digest.ok() || context->versions.back() == *digest);
    changing_ = nested;
  }

  // Notes a version that is stored. The engine itself stores only the same rows, encoded anew.
  void NoteVersion(const ContextRecord& record) {
    const auto context = absl::c_find_if(
        contexts_, [&](const Context& context) { return context.name == record.name; });
    EXPECT_EQ(record.rows, new_rows_.value_or(context->rows));
    EXPECT_TRUE(new_rows_.has_value() || !context->versions.back().empty()) << "it is deleted";
    context->rows = record.rows;
    context->versions.push_back(record.digest);
  }

  void ChangeContext() {
    Context& context = contexts_[random_.Below(std::ssize(contexts_))];
    if (random_.Percent(appends_)) return Append(&context);
    const bool nested = std::exchange(changing_, true);
    if (random_.Percent(70)) {
      Register(&context, RandomShape(backend_, &random_));
    } else if (engine_->impl().DeleteContext(context.tenant, context.name).ok()) {
      context.versions.emplace_back();
    }
    changing_ = nested;
  }

  void DeleteExpired() {
    engine_->impl().Upkeep();
    for (Context& context : contexts_) {
      const bool gone = !engine_->impl().GetContext(context.tenant, context.name).ok();
      if (!gone || context.versions.back().empty()) continue;
      EXPECT_FALSE(absl::c_any_of(calls_, [&](const auto& call) { return Uses(*call, context); }));
      context.versions.emplace_back();
    }
  }

  // Whether values of the latest version are being drawn, by a call that has not ended.
  static bool Uses(const SimulatedCall& call, const Context& context) {
    return call.context == context.name && call.first_version + 1 == context.versions.size() &&
           call.ends == 0 &&
           absl::c_any_of(call.values, [](const auto& path) { return !path.empty(); });
  }

  // For a while, as when the memory of the host runs short.
  void ShrinkPools() {
    const PoolSizes sizes = engine_->impl().Pools();
    PoolSizes smaller = sizes;
    smaller.context /= random_.OneOf({1, 2, 8});
    smaller.buffer /= random_.OneOf({1, 2, 8});
    smaller.registration /= random_.OneOf({1, 2, 8});
    engine_->impl().LimitPools(smaller);
    if (backend_.host_reaches_contexts) limits_ = smaller;
    clock_.After(random_.UpTo(absl::Seconds(10)), [this, sizes] {
      engine_->impl().LimitPools(sizes);
      limits_ = sizes;
    });
  }

  // A file that is written keeps its context, and a pin a replaced one.
  bool NothingHoldsContexts() {
    const EngineStats stats = engine_->impl().Stats();
    return stats.running + stats.queued == 0 && stats.contexts.pinned_bytes == 0 && pinned_ == 0 &&
           !folder_.has_value();
  }

  void AddCall() {
    Context& context = contexts_[random_.Below(std::ssize(contexts_))];
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
    requests_->Send(call, std::move(of_call));
    if (random_.Percent(3)) clock_.After(absl::ZeroDuration(), [this] { ChangeContext(); });
    for (int i = 0; i < 3 && random_.Percent(appends_ / 3); ++i) {  // while it is encoded
      clock_.After(random_.UpTo(absl::Milliseconds(100)), [this, &context] { Append(&context); });
    }
    if (random_.Percent(20)) {
      clock_.After(random_.UpTo(absl::Seconds(random_.OneOf({0, 3}))), [this, call] {
        call->cancelled = std::min(call->cancelled, clock_.Now());
        call->handle->Cancel();
      });
    }
  }

  void StopOnceAllHaveEnded() {
    const bool all_ended =
        std::all_of(calls_.begin(), calls_.end(), [](const auto& call) { return call->ends > 0; });
    if (all_ended || clock_.Now() > begin_ + kLongest) {
      if (NothingHoldsContexts()) CheckResidents();
      open_at_stop_ = !all_ended;
      engine_->Stop();
    } else {
      clock_.After(absl::Seconds(1), [this] { StopOnceAllHaveEnded(); });
    }
  }

  // Contexts that were replaced or deleted hold no memory.
  void CheckResidents() {
    int64_t resident_bytes = 0;
    for (const Context& context : contexts_) {
      const absl::StatusOr<ContextInfo> info =
          engine_->impl().GetContext(context.tenant, context.name);
      if (info.ok() && info->state != ContextState::kNotResident) {
        resident_bytes += info->resident_bytes;
      }
    }
    EXPECT_EQ(engine_->impl().Stats().resident_bytes, resident_bytes);
  }

  void CheckTick() {
    // A failure is described best by what was wrong first.
    if (::testing::Test::HasFailure()) return engine_->Stop();
    const EngineStats stats = engine_->impl().Stats();
    EXPECT_LE(stats.running, options_.max_running);
    EXPECT_LE(stats.queued, options_.max_queued);
    EXPECT_LE(stats.buffer_bytes, backend_.buffer_pool_bytes);
    EXPECT_LE(stats.resident_bytes, std::max(limits_.context, stats.contexts.pinned_bytes));
    EXPECT_LE(stats.encode_bytes, backend_.encode_pool_bytes);
    EXPECT_LE(stats.registration_bytes, options_.max_registered_bytes);
    EXPECT_TRUE(stats.running > 0 || stats.buffer_bytes == 0);
    // While nothing is leased, one call may exceed the limit.
    const int64_t released = device_log_.released_buffer_bytes;
    EXPECT_TRUE(released != released_ || buffer_bytes_ == 0 ||
                stats.buffer_bytes <= std::max(limits_.buffer, buffer_bytes_));
    released_ = released;
    buffer_bytes_ = stats.buffer_bytes;
    const auto open = absl::c_count_if(calls_, [](const auto& call) { return call->ends == 0; });
    EXPECT_GE(stats.running + stats.queued, open) << "neither runs nor has a slot of the queue";
    // The engine itself warms a context again that was pinned when another replaced it, and one
    // that is encoded anew.
    EXPECT_TRUE(pinned_ > 0 || appends_ > 0 || stats.running + stats.queued == open);
  }

  void CheckEnd() {
    EXPECT_FALSE(open_at_stop_) << "calls were open after " << kLongest;
    EXPECT_EQ(drained_.HasBeenNotified(), drain_begin_ < absl::InfiniteFuture());
    for (const auto& call : calls_) CheckCall(*call);
    const EngineStats stats = engine_->impl().Stats();
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.queued, 0);
    EXPECT_EQ(stats.buffer_bytes, 0);
    EXPECT_EQ(stats.encode_bytes, 0);
    EXPECT_EQ(stats.resident_bytes, 0) << "the cache was cleared";
    EXPECT_EQ(stats.contexts.host_bytes, 0) << "the cache was cleared";
    if (!folder_.has_value()) return;
    const auto exist = absl::c_count_if(contexts_, [this](const Context& context) {
      return engine_->impl().GetContext(context.tenant, context.name).ok();
    });
    EXPECT_LE(std::ssize(FilesBelow(folder_->path())), exist);
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
    EXPECT_TRUE(call.arrival <= drain_begin_ || !call.status.ok()) << "the engine drained";
    // Of a call that has started, the time in the queue includes that of finding its context.
    const absl::Duration finding = call.status.ok() ? kFinding : absl::ZeroDuration();
    EXPECT_LE(call.report.queued, options_.max_queue_wait + finding + slack);
    if (call.outstanding >= options_.max_unacknowledged_values) {
      EXPECT_LE(call.end, call.progressed + options_.max_unread + 2 * slack) << "it is not read";
    }
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
    for (int64_t path = 0; path < std::ssize(call.values); ++path) {
      ASSERT_EQ(std::ssize(call.values[path]), call.query_rows);
      for (int64_t step = 0; step < call.query_rows; ++step) {
        ASSERT_EQ(call.values[path][step], FakeValue(key, call.first_path + path, step));
      }
    }
  }

  // Longer than a slow reader takes for each value of the largest Sample.
  static constexpr absl::Duration kLongest = absl::Hours(24);

  Random random_;
  VirtualClock clock_;
  const absl::Time begin_ = clock_.Now();
  EngineOptions options_ = RandomEngineOptions(&random_);
  FakeBackendOptions backend_ = RandomBackendOptions(&random_);
  FakeBackendLog device_log_;
  FakeStoreLog store_log_;
  std::optional<TempFolder> folder_;  // of files
  MetricsSink metrics_;
  std::vector<ClientShare> shares_;
  std::vector<std::shared_ptr<SimulatedCall>> calls_;
  std::optional<SimulatedEngine> engine_;
  std::optional<RandomRequests> requests_;
  std::vector<Context> contexts_;
  absl::Time failed_ = absl::InfiniteFuture();
  absl::Time drain_begin_ = absl::InfiniteFuture();
  absl::Time drain_deadline_ = absl::InfiniteFuture();
  Notification drained_;
  bool open_at_stop_ = false;
  PoolSizes limits_ = {.context = backend_.context_pool_bytes,
                       .buffer = backend_.buffer_pool_bytes};
  int64_t buffer_bytes_ = 0;                      // at the last tick
  int64_t released_ = 0;                          // bytes of the buffer pool, until the last tick
  int64_t pinned_ = random_.OneOf({0, 0, 10});    // percentage of contexts that Warm pins
  int64_t appends_ = random_.OneOf({0, 50, 90});  // percentage of the changes of contexts
  bool changing_ = false;                         // a context is being changed
  std::optional<int64_t> new_rows_;  // of the change that was requested; else the engine's own
};

}  // namespace

void RunScenario(uint64_t seed) { Scenario(seed).Run(); }

}  // namespace chorale::testing
