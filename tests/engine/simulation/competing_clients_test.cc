// Clients that compete for the engine, in virtual time.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sanitized.h"
#include "gtest/gtest.h"
#include "tests/engine/simulation/simulated_call.h"
#include "tests/engine/simulation/simulated_engine.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

namespace chorale::testing {
namespace {

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

// Samples of a client.
struct Load {
  std::string name;
  ClientShare share;
  int64_t paths = 0;
  int64_t query_rows = 0;
  bool read = true;  // the client reads its streams; else it sends no call after another
  int64_t local_rows = 0;
};

// A call that has ended.
struct Ended {
  absl::Status status;
  absl::Duration time;  // from its arrival
};

// Clients that draw samples, each from a context of its own.
class CompetingClients {
 public:
  // `part`: the time that the rows of a local context take.
  explicit CompetingClients(const FakeBackendOptions& backend, const EngineOptions& options = {},
                            absl::Duration part = absl::Milliseconds(1))
      : options_(options) {
    options_.clock = &clock_;
    options_.target_tick = absl::Milliseconds(10);
    options_.max_slices_per_tick = 4;
    const Delay delay = [] { return absl::Milliseconds(1); };
    engine_.emplace(
        &clock_, options_, backend, SimulatedDevice(),
        SimulatedThreads{
            .loader = delay, .parts = [part] { return part; }, .summary = delay, .anew = delay},
        &device_log_, &store_log_, &times_);
  }

  // Keeps `calls` calls of the client open until the end.
  void KeepOpen(const Load& load, int64_t calls) {
    Register(load);
    for (int64_t i = 0; i < calls; ++i) SendAgain(load);
  }

  // Sends a call of the client every `period` until the end.
  void SendEvery(absl::Duration period, const Load& load) {
    Register(load);
    SendLater(period, load);
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

  // The calls of a load that ended before the end.
  const std::vector<Ended>& EndedOf(const std::string& load) { return ended_of_[load]; }

 private:
  void Register(const Load& load) {
    ASSERT_TRUE(engine_->Register(load.share.client, "context", {.rows = 8}).ok());
  }
  void Send(const Load& load, const std::function<void()>& on_end) {
    auto call = std::make_shared<SimulatedCall>();
    call->arrival = clock_.Now();
    call->values.resize(load.paths);
    const std::weak_ptr<SimulatedCall> weak = call;
    const auto read = [weak, reads = load.read](int64_t values) {
      if (reads) weak.lock()->handle->Acknowledge(values);
    };
    const auto end = [this, weak, name = load.name, on_end] {
      if (ended_) return;
      const std::shared_ptr<SimulatedCall> ended = weak.lock();
      ended_of_[name].push_back({ended->status, clock_.Now() - ended->arrival});
      // Later: an observer must not send calls.
      clock_.After(absl::ZeroDuration(), on_end);
    };
    SampleRequest request;
    request.context = "context";
    request.query_rows = SimulatedEngine::Rows(load.query_rows);
    request.beyond_buffer = BeyondBuffer::kWrap;
    request.paths = load.paths;
    request.seed = 1;
    request.local_rows = load.local_rows;
    call->handle =
        engine_->impl().Sample({.tenant = load.share.client, .share = load.share}, request,
                               std::make_shared<SimulatedObserver>(call, &clock_, read, end));
  }
  void SendAgain(const Load& load) {
    Send(load, [=, this] {
      if (load.read) SendAgain(load);
    });
  }
  void SendLater(absl::Duration period, const Load& load) {
    clock_.After(period, [=, this] {
      Send(load, [] {});
      SendLater(period, load);
    });
  }

  VirtualClock clock_;
  EngineOptions options_;
  FakeBackendLog device_log_;
  FakeStoreLog store_log_;
  EngineTimes times_;
  std::map<std::string, std::vector<Ended>> ended_of_;  // by load
  bool ended_ = false;
  std::optional<SimulatedEngine> engine_;
};

TEST(CompetingClientsTest, ClientsGetTheirSharesOfTheDevice) {
  Random random(1);
  const int mixes = FullLength() && !kSanitized ? 100 : 5;
  for (int i = 0; i < mixes; ++i) {
    const bool decodes_in_step = random.Percent(50);
    const double weight = random.OneOf({1.0, 2.0, 3.0, 8.0});
    // The next call of a client arrives during a tick, and runs in the one after it. Four calls of
    // the heavy client are too few to fill eight of nine parts of all ticks nevertheless.
    const int64_t calls[2] = {random.OneOf({4, 8, 32}), random.OneOf({8, 16, 32})};
    const int64_t paths[2] = {random.OneOf({16, 40}), random.OneOf({16, 40})};
    SCOPED_TRACE(absl::StrCat(i, ": weight ", weight, ", calls ", calls[0], " and ", calls[1],
                              ", paths ", paths[0], " and ", paths[1], ", in step ",
                              decodes_in_step));
    CompetingClients clients(Device(decodes_in_step));
    clients.KeepOpen({"light", {"light", 1}, paths[0], /*query_rows=*/32}, calls[0]);
    clients.KeepOpen({"heavy", {"heavy", weight}, paths[1], /*query_rows=*/32}, calls[1]);
    auto times = clients.Run(absl::Seconds(8));
    const double share = absl::FDivDuration(times["heavy"], times["heavy"] + times["light"]);
    EXPECT_NEAR(share, weight / (1 + weight), 0.05);
  }
}

// The time that at most this part of the calls exceeds. Adds a failure if a call failed.
absl::Duration Quantile(const std::vector<Ended>& calls, double part) {
  std::vector<absl::Duration> times;
  for (const Ended& call : calls) {
    EXPECT_TRUE(call.status.ok()) << call.status;
    times.push_back(call.time);
  }
  std::sort(times.begin(), times.end());
  return times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))];
}

TEST(CompetingClientsTest, ShortCallsDoNotWaitForLongOnes) {
  for (const bool decodes_in_step : {false, true}) {
    for (const std::string greedy : {"greedy", "occasional"}) {
      SCOPED_TRACE(absl::StrCat("of ", greedy, ", in step ", decodes_in_step));
      CompetingClients clients(Device(decodes_in_step));
      clients.KeepOpen({"long", {greedy, 1}, /*paths=*/200, /*query_rows=*/64}, 32);
      clients.SendEvery(absl::Milliseconds(50),
                        {"short", {"occasional", 1}, /*paths=*/1, /*query_rows=*/4});
      clients.Run(absl::Seconds(kSanitized ? 3 : 8));
      const std::vector<Ended>& calls = clients.EndedOf("short");
      ASSERT_GT(calls.size(), 40);
      EXPECT_LT(Quantile(calls, 0.99), absl::Milliseconds(40));
    }
  }
}

TEST(CompetingClientsTest, TheDeviceIsBusyWhileCallsWait) {
  EngineOptions options;
  options.max_running = 1;
  CompetingClients clients(Device(/*decodes_in_step=*/false), options);
  clients.KeepOpen({"one", {"one", 1}, /*paths=*/4, /*query_rows=*/4}, 2);
  clients.KeepOpen({"another", {"another", 1}, /*paths=*/4, /*query_rows=*/4}, 2);
  auto times = clients.Run(absl::Seconds(5));
  EXPECT_GT(times["one"] + times["another"], absl::Seconds(3.9));
}

TEST(CompetingClientsTest, StalledReadersGiveWay) {
  EngineOptions options;
  options.max_running = 4;
  options.max_unacknowledged_values = 1;
  options.max_unread = absl::InfiniteDuration();
  CompetingClients clients(Device(/*decodes_in_step=*/false), options);
  clients.KeepOpen({"stalled", {"stalled", 1}, /*paths=*/4, /*query_rows=*/64, /*read=*/false}, 4);
  clients.SendEvery(absl::Seconds(0.9), {"other", {"other", 1}, /*paths=*/1, /*query_rows=*/4});
  clients.Run(absl::Seconds(20));
  ASSERT_GT(clients.EndedOf("other").size(), 10);
  // A request counts as starved after 2 s, and starts as soon as the stream has ended.
  EXPECT_LT(Quantile(clients.EndedOf("other"), 1), absl::Seconds(2.1));
}

TEST(CompetingClientsTest, LocalContextsDelayNoContextThatIsRead) {
  EngineOptions options;
  options.max_registered_bytes = 0;
  CompetingClients clients(Device(/*decodes_in_step=*/false), options, /*part=*/absl::Seconds(5));
  clients.KeepOpen(
      {.name = "local", .share = {"one", 1}, .paths = 1, .query_rows = 1, .local_rows = 4}, 4);
  // The first call reads the context.
  clients.SendEvery(absl::Seconds(2), {"other", {"another", 1}, /*paths=*/1, /*query_rows=*/1});
  clients.Run(absl::Seconds(20));
  EXPECT_GT(clients.EndedOf("local").size(), 2);
  ASSERT_GT(clients.EndedOf("other").size(), 5);
  EXPECT_LT(Quantile(clients.EndedOf("other"), 1), absl::Seconds(0.1));
}

TEST(CompetingClientsTest, CallsWithoutHopeAreRefusedAtOnce) {
  EngineOptions options;
  options.max_running = 1;
  options.max_queue_wait = absl::Seconds(5);
  CompetingClients clients(Device(/*decodes_in_step=*/false), options);
  // Each takes 0.1 s of the device.
  clients.SendEvery(absl::Seconds(0.05), {"load", {"one", 1}, /*paths=*/4, /*query_rows=*/250});
  clients.Run(absl::Seconds(20));
  int64_t refused = 0;
  for (const Ended& call : clients.EndedOf("load")) {
    if (call.status.ok()) continue;
    ++refused;
    // It takes a second of load to know how long calls take.
    EXPECT_LT(call.time, absl::Seconds(1.2)) << call.status;
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace chorale::testing
