#include "tests/engine/simulation/scenario.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/notification.h"
#include "engine/session/density_session.h"
#include "engine/session/predict_session.h"
#include "engine/session/random_key.h"
#include "engine/session/sample_session.h"
#include "engine/session/warm_session.h"
#include "gtest/gtest.h"
#include "tests/engine/simulation/simulated_call.h"
#include "tests/engine/simulation/simulated_engine.h"

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
    backend_.tile_paths = random_.OneOf({1, 4, 32});
    backend_.density_tiles = random_.OneOf({1, 4});
    backend_.decodes_in_step = random_.Percent(50);
    backend_.context_pool_bytes = random_.OneOf({4, 16, 64}) << 10;
    backend_.buffer_pool_bytes = random_.OneOf({4, 64, 1024}) << 10;
    backend_.encode_steps = random_.OneOf({1, 3, 50});
    if (random_.Percent(50)) backend_.host_context_pool_bytes = 8 << 10;
    if (random_.Percent(50)) {
      backend_.encode_pool_bytes = 8 << 10;
      backend_.encode_bytes_per_row = 64;
      backend_.rows_bytes_per_row = 64;
      backend_.predict_bytes_per_row = 64;
    }
    SimulatedThreads threads;
    threads.look_up = threads.read = [this] { return random_.UpTo(absl::Milliseconds(50)); };
    threads.summary = [this] { return random_.UpTo(absl::Milliseconds(2)); };
    threads.read_outcome = [this, percent = random_.OneOf({0, 0, 20})] {
      return random_.Percent(percent) ? absl::DataLossError("the disk is bad") : absl::OkStatus();
    };
    engine_.emplace(&clock_, options_, backend_, SimulatedDevice(), std::move(threads), &log_,
                    &metrics_);
  }

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
    if (random_.Percent(30)) {
      clock_.After(random_.UpTo(kArrivals), [this] { ReplaceContext(); });
    }
    if (random_.Percent(20)) {
      clock_.After(random_.UpTo(kArrivals), [this] { ShrinkPools(); });
    }
    if (random_.Percent(5)) {
      clock_.After(random_.UpTo(kArrivals), [this] {
        engine_->Fail();
        failed_ = clock_.Now();
      });
    }
    Notification drained;
    if (random_.Percent(50)) {
      clock_.After(kArrivals, [&] {
        drain_deadline_ = clock_.Now() + random_.OneOf({0, 1, 100}) * absl::Seconds(1);
        engine_->Drain(drain_deadline_, &drained);
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

  void AddContexts() {
    const int64_t clients = 1 + random_.Below(4);
    for (int64_t i = 0; i < clients; ++i) {
      shares_.push_back({absl::StrCat("client ", i), random_.OneOf({0.5, 1.0, 4.0})});
    }
    const int64_t contexts = 1 + random_.Below(8);
    for (int64_t i = 0; i < contexts; ++i) {
      contexts_.push_back(engine_->NewContext(shares_[random_.Below(clients)].client,
                                              random_.OneOf({1, 5, 20, 60}), random_.Percent(50)));
    }
  }

  void ReplaceContext() {
    SimulatedEngine::Context& context = contexts_[random_.Below(std::ssize(contexts_))];
    engine_->Replace(context);
    context =
        engine_->NewContext(context->record.tenant, context->record.rows + 1, /*with_data=*/true);
  }

  // For a while, as when the memory of the host runs short.
  void ShrinkPools() {
    const int64_t context = backend_.context_pool_bytes;
    const int64_t buffer = backend_.buffer_pool_bytes;
    engine_->LimitPools(context / random_.OneOf({1, 2, 8}), buffer / random_.OneOf({1, 2, 8}));
    clock_.After(random_.UpTo(absl::Seconds(10)),
                 [this, context, buffer] { engine_->LimitPools(context, buffer); });
  }

  void AddCall() {
    const SimulatedEngine::Context context = contexts_[random_.Below(std::ssize(contexts_))];
    auto call = std::make_shared<SimulatedCall>();
    calls_.push_back(call);
    call->arrival = clock_.Now();
    if (random_.Percent(40)) {
      call->deadline = call->arrival + random_.UpTo(absl::Seconds(random_.OneOf({0, 1, 20})));
    }
    CallContext of_call = {.tenant = context->record.tenant,
                           .share = shares_[random_.Below(std::ssize(shares_))],
                           .deadline = call->deadline,
                           .report = [call](const CallReport& report) { call->report = report; }};
    Submit(call, std::move(of_call), context);
    for (const auto& other : calls_) {
      if (other->control->displaced) other->displaced = std::min(other->displaced, clock_.Now());
    }
    if (random_.Percent(20)) {
      clock_.After(random_.UpTo(absl::Seconds(random_.OneOf({0, 3}))), [this, call] {
        call->cancelled = std::min(call->cancelled, clock_.Now());
        engine_->Cancel(*call->control);
      });
    }
  }

  // `size`: returns the number of results, which must be `expected`.
  template <typename Result>
  Callback<Result> Answer(const std::shared_ptr<SimulatedCall>& call, int64_t expected,
                          int64_t (*size)(const Result&)) {
    return [this, call, expected, size](const absl::StatusOr<Result>& result) {
      ++call->ends;
      call->status = result.status();
      call->end = clock_.Now();
      EXPECT_EQ(result.ok() ? size(*result) : expected, expected) << call->what;
    };
  }

  void Submit(const std::shared_ptr<SimulatedCall>& call, CallContext of_call,
              const SimulatedEngine::Context& context) {
    const bool in_memory = random_.Percent(50);
    const int64_t query_rows = random_.OneOf({0, 1, 2, 7, 32, 32, 200});
    const int64_t paths = random_.OneOf({1, 3, 4, 33, 200});
    switch (random_.Below(6)) {
      case 0: {
        call->what = "Warm";
        call->control = engine_->Submit<WarmSession>(
            std::move(of_call), context, in_memory, WarmRequest(),
            Answer<ContextInfo>(call, context->record.rows,
                                [](const auto& info) { return info.record.rows; }));
        return;
      }
      case 1: {
        call->what = absl::StrCat("Predict of ", query_rows * paths);
        PredictRequest request;
        request.query_rows = SimulatedEngine::QueryRows(query_rows * paths);
        request.want_mixtures = random_.Percent(30);
        request.quantiles.resize(random_.Below(3), 0.5);
        call->control = engine_->Submit<PredictSession>(
            std::move(of_call), context, in_memory, request,
            Answer<PredictResult>(call, query_rows * paths,
                                  [](const auto& result) { return std::ssize(result.mean); }));
        return;
      }
      case 2: {
        call->what = absl::StrCat("LogDensity of ", paths, " times ", query_rows);
        LogDensityRequest request;
        request.query_rows = SimulatedEngine::QueryRows(query_rows);
        request.beyond_buffer = BeyondBuffer::kWrap;
        request.vectors = paths;
        request.y.resize(paths * query_rows);
        request.seed = 1;
        if (random_.Percent(30)) request.random_orders = 3;
        call->control = engine_->Submit<DensitySession>(
            std::move(of_call), context, in_memory, request,
            Answer<LogDensityResult>(
                call, paths, [](const auto& result) { return std::ssize(result.log_density); }));
        return;
      }
      default:
        SubmitSample(call, std::move(of_call), context, in_memory, query_rows, paths);
    }
  }

  void SubmitSample(const std::shared_ptr<SimulatedCall>& call, CallContext of_call,
                    const SimulatedEngine::Context& context, bool in_memory, int64_t query_rows,
                    int64_t paths) {
    call->what = absl::StrCat("Sample of ", paths, " times ", query_rows);
    call->paths = paths;
    call->query_rows = query_rows;
    call->values.resize(paths);
    const absl::Duration reading = absl::Milliseconds(random_.OneOf({0, 1, 200}));
    const int64_t read_at_most = random_.Percent(10) ? random_.Below(100) : paths * query_rows;
    call->on_values = [this, weak = std::weak_ptr(call), reading, read_at_most,
                       read = int64_t{0}](int64_t values) mutable {
      values = std::min(values, read_at_most - read);
      read += values;
      if (values == 0) return;
      clock_.After(reading, [this, weak, values] {
        if (const auto reader = weak.lock()) engine_->Acknowledge(*reader->control, values);
      });
    };
    SampleRequest request;
    request.query_rows = SimulatedEngine::QueryRows(query_rows);
    request.snapping = Snapping::kOff;
    request.beyond_buffer = BeyondBuffer::kWrap;
    request.want_log_densities = random_.Percent(30);
    request.paths = paths;
    request.seed = random_.Below(1000);
    call->random_key =
        RandomKey(*request.seed, {context->record.digest, context->model->info.digest});
    call->control =
        engine_->Submit<SampleSession>(std::move(of_call), context, in_memory, request,
                                       std::make_shared<SimulatedObserver>(call, &clock_));
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
    const EngineStats stats = engine_->stats();
    EXPECT_LE(stats.running, options_.max_running);
    EXPECT_LE(stats.queued, options_.max_queued);
    EXPECT_LE(stats.buffer_bytes, backend_.buffer_pool_bytes);
    EXPECT_LE(stats.resident_bytes, backend_.context_pool_bytes);
    EXPECT_LE(stats.encode_bytes, backend_.encode_pool_bytes);
    EXPECT_TRUE(stats.running > 0 || stats.buffer_bytes == 0);
    const auto open = std::count_if(calls_.begin(), calls_.end(),
                                    [](const auto& call) { return call->ends == 0; });
    EXPECT_LE(stats.running + stats.queued, open);
  }

  void CheckEnd() {
    EXPECT_FALSE(open_at_stop_) << "calls were open after " << kLongest;
    for (const auto& call : calls_) CheckCall(*call);
    const EngineStats stats = engine_->stats();
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
    EXPECT_LE(call.end, std::max(call.displaced, call.arrival) + slack);
    EXPECT_LE(call.end, std::max(failed_, call.arrival) + kDeviceCheck + slack);
    EXPECT_LE(call.end, std::max(drain_deadline_, call.arrival) + slack);
    EXPECT_LE(call.report.queued, options_.max_queue_wait + slack);
    if (call.values.empty() || !call.status.ok()) return;
    for (int64_t path = 0; path < call.paths; ++path) {
      ASSERT_EQ(std::ssize(call.values[path]), call.query_rows);
      for (int64_t step = 0; step < call.query_rows; ++step) {
        ASSERT_EQ(call.values[path][step], FakeValue(call.random_key, path, step));
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
  FakeBackendLog log_;
  MetricsSink metrics_;
  std::vector<ClientShare> shares_;
  std::vector<std::shared_ptr<SimulatedCall>> calls_;
  std::optional<SimulatedEngine> engine_;
  std::vector<SimulatedEngine::Context> contexts_;
  absl::Time failed_ = absl::InfiniteFuture();
  absl::Time drain_deadline_ = absl::InfiniteFuture();
  bool open_at_stop_ = false;
};

}  // namespace

void RunScenario(uint64_t seed) { Scenario(seed).Run(); }

}  // namespace chorale::testing
