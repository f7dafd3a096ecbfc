// Creation, drain, destruction, and a backend that fails.
#include <atomic>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/engine/engine_fixture.h"
#include "tests/support/eventually.h"

namespace chorale::testing {
namespace {

class EngineLifeCycleTest : public EngineFixture {
 protected:
  void Start() {
    StartEngine();
    Register("c");
    MakeResident("c");
  }
  std::shared_ptr<SampleRecorder> Draw(int64_t paths, int64_t query_rows) {
    auto recorder = std::make_shared<SampleRecorder>();
    calls_.push_back(engine_->Sample(call_, SampleOf("c", paths, query_rows), recorder));
    return recorder;
  }
  std::vector<std::shared_ptr<Call>> calls_;
};

TEST_F(EngineLifeCycleTest, CreateRefusesBadArguments) {
  const auto create = [&](EngineOptions options, std::vector<Model> models) {
    return Engine::Create(options, NewFakeBackend({}, &backend_),
                          std::make_unique<FakeStore>(&store_), std::move(models), nullptr)
        .status()
        .code();
  };
  EXPECT_EQ(create({}, {}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({}, {model_, model_}), absl::StatusCode::kInvalidArgument);
  EngineOptions no_queue;
  no_queue.max_queued = 0;
  EXPECT_EQ(create(no_queue, {model_}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({}, {model_}), absl::StatusCode::kOk);
}

TEST_F(EngineLifeCycleTest, ModelsAreListedWithTheDefaultFirst) {
  StartEngine();
  const auto models = engine_->Models();
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].name, "model");
  EXPECT_TRUE(models[0].is_default);
  EXPECT_EQ(models[0].config.buffer_size, 16);
  EXPECT_EQ(engine_->backend_description(), "fake");
}

TEST_F(EngineLifeCycleTest, DrainLetsWorkFinishAndRefusesTheNext) {
  Start();
  backend_.microseconds_per_step = 200;
  auto running = Draw(40, 16);
  running->WaitForValues(1);
  engine_->Drain(absl::InfiniteFuture());
  EXPECT_TRUE(running->is_done());
  EXPECT_TRUE(running->Wait().ok());
  auto late = Draw(1, 1);
  EXPECT_EQ(late->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine_->Register(kTenant, "d", "", MakeDataset(5)).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(metrics_.rejected("draining"), 1);
  engine_->Drain(absl::InfinitePast());  // again: nothing is left to wait for
}

TEST_F(EngineLifeCycleTest, DrainEndsWhatIsNotDoneInTime) {
  options_.max_unacknowledged_values = 1;
  Start();
  auto stalled = Draw(4, 16);
  stalled->WaitForValues(1);
  const absl::Time start = clock_.Now();
  engine_->Drain(start + absl::Milliseconds(30));
  EXPECT_GE(clock_.Now() - start, absl::Milliseconds(29));
  EXPECT_EQ(stalled->Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_F(EngineLifeCycleTest, DestroyedWithSessionsInEveryState) {
  options_.max_unacknowledged_values = 4;
  backend_options_.buffer_pool_bytes = 4 * 16 * 64;
  Start();
  Register("d");
  auto running = Draw(4, 16);
  auto queued = Draw(4, 16);
  running->WaitForValues(1);
  store_.HoldReads();
  Answer<ContextInfo> reading;
  calls_.push_back(engine_->Warm(call_, {"d"}, reading.callback()));
  EXPECT_EVENTUALLY(store_.reads == 2);
  // The disk answers only after the engine thread has gone.
  std::thread late([this] {
    absl::SleepFor(absl::Milliseconds(20));
    store_.LetReadsGo();
  });
  engine_.reset();
  late.join();
  EXPECT_EQ(running->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(queued->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(reading.Wait().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(store_.closed);
  for (auto& call : calls_) {  // calls may outlive the engine
    call->Acknowledge(5);
    call->Cancel();
  }
}

TEST_F(EngineLifeCycleTest, ABackendFailureEndsEverythingAndIsSeen) {
  backend_options_.buffer_pool_bytes = 4 * 16 * 64;
  Start();
  backend_.CloseGate();
  auto running = Draw(4, 16);
  auto queued = Draw(4, 16);
  Answer<PredictResult> predict;
  engine_->Predict(call_, PredictOf("c", 3), predict.callback());
  EXPECT_TRUE(engine_->Health().ok());
  backend_.LetThrough(1);
  backend_.fail = true;
  backend_.OpenGate();
  EXPECT_EQ(running->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(queued->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(predict.Wait().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine_->Health().code(), absl::StatusCode::kUnavailable);
  const int64_t ticks = backend_.ticks;
  backend_.fail = false;
  EXPECT_EQ(Draw(1, 1)->Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(metrics_.rejected("backend_failed"), 1);
  EXPECT_EQ(backend_.ticks, ticks) << "a failed backend is not used again";
  EXPECT_TRUE(engine_->GetContext(kTenant, "c").ok()) << "what is on disk can still be read";
}

TEST_F(EngineLifeCycleTest, ADeviceThatIsLostWithoutWorkIsNoticed) {
  Start();
  EXPECT_EQ(Draw(1, 1)->Wait(), absl::OkStatus());
  backend_.fail = true;
  EXPECT_TRUE(SkipUntil(absl::Seconds(1), [&] { return !engine_->Health().ok(); }));
  EXPECT_EQ(Draw(1, 1)->Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_F(EngineLifeCycleTest, ManyThreadsAtOnce) {
  backend_options_.context_pool_bytes = 3 * 640;
  StartEngine();
  for (int i = 0; i < 5; ++i) Register(absl::StrCat("c", i), 10, i + 1);
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, &done] {
      for (int i = 0; i < 40; ++i) {
        const std::string name = absl::StrCat("c", (t + i) % 5);
        auto recorder = std::make_shared<SampleRecorder>();
        auto call = engine_->Sample(call_, SampleOf(name, 5, 4), recorder);
        Answer<LogDensityResult> density;
        engine_->LogDensity(call_, DensityOf(name, 2, 3), density.callback());
        Answer<PredictResult> predict;
        engine_->Predict(call_, PredictOf(name, 3), predict.callback());
        if (i % 7 == 0) call->Cancel();
        if (i % 13 == 0) {
          engine_->DeleteContext(kTenant, name).IgnoreError();
          engine_->Register(kTenant, name, "", MakeDataset(10, 50 + i)).IgnoreError();
        }
        engine_->ListContexts(kTenant, {10}, "").IgnoreError();
        recorder->Wait().IgnoreError();
        density.Wait().IgnoreError();
        predict.Wait().IgnoreError();
        ++done;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(done, 160);
}

}  // namespace
}  // namespace chorale::testing
