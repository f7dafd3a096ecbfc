// The engine's loop in virtual time: what must hold whatever happens, and fairness.
//
// CHORALE_SIMULATION_SEED=N runs the scenario of one seed alone.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/session/sample_session.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/engine/simulation/scenario.h"
#include "tests/engine/simulation/simulated_call.h"
#include "tests/engine/simulation/simulated_engine.h"
#include "tests/support/length.h"
#include "tests/support/sanitized.h"

namespace chorale::testing {
namespace {

int64_t Scenarios() { return !FullLength() ? 200 : kSanitized ? 1'000 : 10'000; }

// Adds up the engine time of each tenant.
class EngineTimes : public MetricsSink {
 public:
  void EngineTime(const std::string& tenant, absl::Duration time) override {
    times_[tenant] += time;
  }
  std::map<std::string, absl::Duration> Take() { return std::exchange(times_, {}); }

 private:
  std::map<std::string, absl::Duration> times_;
};

FakeBackendOptions Device(bool decodes_in_step) {
  FakeBackendOptions backend;
  backend.tile_paths = 4;
  backend.decodes_in_step = decodes_in_step;
  return backend;
}

// Clients that draw samples, each from a context of its own.
class CompetingClients {
 public:
  explicit CompetingClients(const FakeBackendOptions& backend, const EngineOptions& options = {})
      : options_(options) {
    options_.clock = &clock_;
    options_.target_tick = absl::Milliseconds(10);
    options_.max_slices_per_tick = 4;
    SimulatedThreads threads;
    threads.look_up = threads.read = threads.summary = [] { return absl::Milliseconds(1); };
    threads.read_outcome = [] { return absl::OkStatus(); };
    engine_.emplace(&clock_, options_, backend, SimulatedDevice(), std::move(threads), &log_,
                    &times_);
  }

  // Keeps `calls` calls of the client open until the end.
  void KeepOpen(const ClientShare& share, int64_t calls, int64_t paths, int64_t query_rows) {
    const SimulatedEngine::Context context = NewContext(share);
    for (int64_t i = 0; i < calls; ++i) Repeat(share, context, paths, query_rows);
  }

  // Sends `calls` calls whose streams nobody reads.
  void SendUnread(const ClientShare& share, int64_t calls, int64_t paths, int64_t query_rows) {
    stalled_.insert(share.client);
    const SimulatedEngine::Context context = NewContext(share);
    for (int64_t i = 0; i < calls; ++i) Send(share, context, paths, query_rows, nullptr);
  }

  // Sends a call of the client every `period` until the end. Returns how long each took.
  std::shared_ptr<const std::vector<absl::Duration>> SendEvery(absl::Duration period,
                                                               const ClientShare& share,
                                                               int64_t paths, int64_t query_rows) {
    auto times = std::make_shared<std::vector<absl::Duration>>();
    const SimulatedEngine::Context context = NewContext(share);
    SendLater(period, share, context, paths, query_rows, times);
    return times;
  }

  // Runs for `time`, and returns the engine time of each client after a second, in which estimates
  // settle.
  std::map<std::string, absl::Duration> Run(absl::Duration time) {
    std::map<std::string, absl::Duration> times;
    clock_.After(absl::Seconds(1), [this] { times_.Take(); });
    clock_.After(time, [&] {
      times = times_.Take();
      ended_ = true;
      engine_->Stop();
    });
    engine_->Run();
    return times;
  }

 private:
  SimulatedEngine::Context NewContext(const ClientShare& share) const {
    return engine_->NewContext(share.client, 8, /*with_data=*/true);
  }
  void Send(const ClientShare& share, const SimulatedEngine::Context& context, int64_t paths,
            int64_t query_rows, std::function<void(const SimulatedCall&)> on_end) {
    auto call = std::make_shared<SimulatedCall>();
    call->arrival = clock_.Now();
    call->values.resize(paths);
    call->on_values = [this, weak = std::weak_ptr(call), client = share.client](int64_t values) {
      const auto reader = weak.lock();
      if (reader && !stalled_.contains(client)) engine_->Acknowledge(*reader->control, values);
    };
    call->on_end = std::move(on_end);
    SampleRequest request;
    request.query_rows = SimulatedEngine::QueryRows(query_rows);
    request.beyond_buffer = BeyondBuffer::kWrap;
    request.paths = paths;
    request.seed = 1;
    call->control = engine_->Submit<SampleSession>(
        CallContext{.tenant = share.client, .share = share}, context, /*in_memory=*/true, request,
        std::make_shared<SimulatedObserver>(call, &clock_));
  }
  void Repeat(const ClientShare& share, const SimulatedEngine::Context& context, int64_t paths,
              int64_t query_rows) {
    Send(share, context, paths, query_rows, [=, this](const SimulatedCall& /*call*/) {
      if (!ended_) Repeat(share, context, paths, query_rows);
    });
  }
  void SendLater(absl::Duration period, const ClientShare& share,
                 const SimulatedEngine::Context& context, int64_t paths, int64_t query_rows,
                 const std::shared_ptr<std::vector<absl::Duration>>& times) {
    clock_.After(period, [=, this] {
      if (ended_) return;
      Send(share, context, paths, query_rows, [this, times](const SimulatedCall& call) {
        if (!ended_) times->push_back(call.end - call.arrival);
      });
      SendLater(period, share, context, paths, query_rows, times);
    });
  }

  VirtualClock clock_;
  EngineOptions options_;
  FakeBackendLog log_;
  EngineTimes times_;
  std::set<std::string> stalled_;
  bool ended_ = false;
  std::optional<SimulatedEngine> engine_;
};

TEST(CompetingClientsTest, ClientsGetTheirSharesOfTheDevice) {
  Random random(1);
  const int mixes = FullLength() ? 100 : 5;
  for (int i = 0; i < mixes; ++i) {
    const bool decodes_in_step = random.Percent(50);
    const double weight = random.OneOf({1.0, 2.0, 3.0, 8.0});
    const int64_t calls[2] = {random.OneOf({4, 8, 32}), random.OneOf({4, 8, 32})};
    const int64_t paths[2] = {random.OneOf({16, 40}), random.OneOf({16, 40})};
    SCOPED_TRACE(absl::StrCat(i, ": weight ", weight, ", calls ", calls[0], " and ", calls[1],
                              ", paths ", paths[0], " and ", paths[1], ", in step ",
                              decodes_in_step));
    CompetingClients clients(Device(decodes_in_step));
    clients.KeepOpen({"light", 1}, calls[0], paths[0], 32);
    clients.KeepOpen({"heavy", weight}, calls[1], paths[1], 32);
    auto times = clients.Run(absl::Seconds(8));
    const double share = absl::FDivDuration(times["heavy"], times["heavy"] + times["light"]);
    EXPECT_NEAR(share, weight / (1 + weight), 0.05);
  }
}

absl::Duration Percentile99(std::vector<absl::Duration> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() * 99 / 100];
}

TEST(CompetingClientsTest, ShortCallsDoNotWaitForLongOnes) {
  for (const bool decodes_in_step : {false, true}) {
    for (const std::string greedy : {"greedy", "occasional"}) {
      SCOPED_TRACE(absl::StrCat("of ", greedy, ", in step ", decodes_in_step));
      CompetingClients clients(Device(decodes_in_step));
      clients.KeepOpen({greedy, 1}, 32, 200, 64);
      const auto times = clients.SendEvery(absl::Milliseconds(50), {"occasional", 1}, /*paths=*/1,
                                           /*query_rows=*/4);
      clients.Run(absl::Seconds(8));
      ASSERT_GT(times->size(), 100);
      EXPECT_LT(Percentile99(*times), absl::Milliseconds(40));
    }
  }
}

TEST(CompetingClientsTest, TheDeviceIsBusyWhileCallsWait) {
  EngineOptions options;
  options.max_running = 1;
  CompetingClients clients(Device(/*decodes_in_step=*/false), options);
  clients.KeepOpen({"one", 1}, 2, 4, 4);
  clients.KeepOpen({"another", 1}, 2, 4, 4);
  auto times = clients.Run(absl::Seconds(5));
  EXPECT_GT(times["one"] + times["another"], absl::Seconds(3.9));
}

TEST(CompetingClientsTest, StalledReadersGiveWay) {
  EngineOptions options;
  options.max_running = 4;
  options.max_unacknowledged_values = 1;
  options.max_unread = absl::InfiniteDuration();
  CompetingClients clients(Device(/*decodes_in_step=*/false), options);
  clients.SendUnread({"stalled", 1}, 4, /*paths=*/4, /*query_rows=*/64);
  const auto times =
      clients.SendEvery(absl::Seconds(0.9), {"other", 1}, /*paths=*/1, /*query_rows=*/4);
  clients.Run(absl::Seconds(20));
  ASSERT_GT(times->size(), 10);
  // A request counts as starved after 2 s, and starts as soon as the stream has ended.
  EXPECT_LT(*std::max_element(times->begin(), times->end()), absl::Seconds(2.1));
}

// In ten parts, which can run in parallel.
class ScenariosTest : public ::testing::TestWithParam<int> {};

TEST_P(ScenariosTest, HoldWhateverHappens) {
  spdlog::set_level(spdlog::level::off);
  const char* const one = std::getenv("CHORALE_SIMULATION_SEED");
  if (one != nullptr && GetParam() > 0) GTEST_SKIP() << "CHORALE_SIMULATION_SEED is set";
  const int64_t scenarios = one != nullptr ? 1 : Scenarios() / 10;
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : GetParam() * scenarios;
  for (int64_t i = 0; i < scenarios && !HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("CHORALE_SIMULATION_SEED=", first + i));
    RunScenario(first + i);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, ScenariosTest, ::testing::Range(0, 10));

}  // namespace
}  // namespace chorale::testing
