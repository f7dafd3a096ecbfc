// Queueing, fairness, back-pressure, cancellation and deadlines.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error_details.h"
#include "base/mutex.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

class EngineAdmissionTest : public EngineFixture {
 protected:
  void Start() {
    StartEngine();
    Register("c");
    MakeResident("c");
  }
  // A buffer pool that holds exactly one tile of 4 paths and 16 query rows.
  void StartWithOneBuffer() {
    backend_options_.buffer_pool_bytes = 4 * 16 * 64;
    Start();
  }
  std::shared_ptr<SampleRecorder> Draw(int64_t paths, int64_t query_rows,
                                       std::shared_ptr<Call>* call = nullptr,
                                       absl::Time deadline = absl::InfiniteFuture()) {
    auto recorder = std::make_shared<SampleRecorder>();
    auto started = engine_->Sample({.tenant = kTenant, .deadline = deadline},
                                   SampleOf("c", paths, query_rows), recorder);
    if (call != nullptr) *call = started;
    return recorder;
  }
};

TEST_F(EngineAdmissionTest, AFullQueueRejectsExactlyTheRest) {
  options_.max_queued = 3;
  StartWithOneBuffer();
  backend_.CloseGate();
  auto running = Draw(4, 16);
  EXPECT_EVENTUALLY(engine_->Stats().running == 1);
  std::vector<std::shared_ptr<SampleRecorder>> recorders;
  for (int i = 0; i < 8; ++i) recorders.push_back(Draw(4, 16));
  EXPECT_EQ(metrics_.rejected("queue_full"), 5);
  backend_.OpenGate();
  EXPECT_TRUE(running->Wait().ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(recorders[i]->Wait().ok());
  for (int i = 3; i < 8; ++i) {
    const absl::Status status = recorders[i]->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(RetryDelay(status), options_.retry_delay);
  }
  EXPECT_EQ(metrics_.admissions, 4);
}

TEST_F(EngineAdmissionTest, WaitingTooLongIsRejected) {
  options_.max_queue_wait = absl::Hours(1);
  options_.max_unread = absl::Hours(24);
  options_.max_unacknowledged_values = 1;
  StartWithOneBuffer();
  std::shared_ptr<Call> call;
  auto slow_reader = Draw(4, 16, &call);
  slow_reader->WaitForValues(1);
  auto waiting = Draw(1, 1);
  EXPECT_TRUE(SkipUntil(absl::Minutes(1), [&] { return waiting->is_done(); }));
  const absl::Status status = waiting->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryDelay(status), options_.retry_delay);
  EXPECT_EQ(metrics_.rejected("queue_timeout"), 1);
  EXPECT_FALSE(slow_reader->is_done());
  call->Cancel();
  EXPECT_EQ(slow_reader->Wait().code(), absl::StatusCode::kCancelled);
}

TEST_F(EngineAdmissionTest, ALookUpIsQueueWait) {
  options_.max_queue_wait = absl::Hours(1);
  StartEngine();
  Register("c");
  store_.HoldReads();
  Answer<ContextInfo> answer;
  engine_->Warm(call_, {"c"}, answer.callback());
  EXPECT_EVENTUALLY(store_.reads == 1);
  EXPECT_TRUE(SkipUntil(absl::Minutes(1), [&] { return answer.has_come(); }));
  store_.LetReadsGo();
  const absl::Status status = answer.Wait().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("loaded within"));
  EXPECT_EQ(RetryDelay(status), options_.retry_delay);
  EXPECT_EQ(metrics_.rejected("queue_timeout"), 1);
  EXPECT_EVENTUALLY(engine_->Stats().resident_contexts == 1);  // the read was not in vain
}

TEST_F(EngineAdmissionTest, ALongEncodingIsNoQueueWait) {
  options_.max_queue_wait = absl::Hours(1);
  backend_options_.encode_steps = 50;
  backend_.step_time = absl::Minutes(3);
  StartEngine();
  Register("c");
  Answer<ContextInfo> answer;
  engine_->Warm(call_, {"c"}, answer.callback());
  EXPECT_TRUE(answer.Wait().ok());
}

// Of a client's requests, those with the least work come first.
TEST_F(EngineAdmissionTest, SmallRequestsOvertakeALargeOne) {
  StartWithOneBuffer();
  backend_.CloseGate();
  auto first = Draw(1, 1);
  EXPECT_EVENTUALLY(engine_->Stats().running == 1);
  auto large = Draw(4, 16);
  std::vector<std::shared_ptr<SampleRecorder>> small;
  std::atomic<int> small_done{0};
  std::atomic<int> small_done_after_large{0};
  large->on_done = [&] { small_done_after_large = 5 - small_done.load(); };
  for (int i = 0; i < 5; ++i) {
    auto recorder = std::make_shared<SampleRecorder>();
    recorder->on_done = [&] { ++small_done; };
    engine_->Sample(call_, SampleOf("c", 1, 1), recorder);
    small.push_back(recorder);
  }
  // Point predictions need no buffer.
  Answer<PredictResult> predict;
  engine_->Predict(call_, PredictOf("c", 1), predict.callback());
  backend_.OpenGate();
  EXPECT_TRUE(large->Wait().ok());
  EXPECT_EQ(small_done_after_large, 0);
  EXPECT_TRUE(predict.Wait().ok());
  EXPECT_TRUE(first->Wait().ok());
  for (auto& recorder : small) EXPECT_TRUE(recorder->Wait().ok());
}

TEST_F(EngineAdmissionTest, MaxRunningBoundsTheSessionsAdmitted) {
  options_.max_running = 2;
  Start();
  backend_.CloseGate();
  std::vector<std::shared_ptr<SampleRecorder>> recorders;
  for (int i = 0; i < 5; ++i) recorders.push_back(Draw(1, 2));
  backend_.LetThrough(1);
  EXPECT_EVENTUALLY(engine_->Stats().running == 2 && engine_->Stats().queued == 3);
  backend_.OpenGate();
  for (auto& recorder : recorders) EXPECT_TRUE(recorder->Wait().ok());
}

TEST_F(EngineAdmissionTest, BuffersDoNotGrowWithTheNumberOfPaths) {
  Start();
  std::atomic<int64_t> most{0};
  auto recorder = std::make_shared<SampleRecorder>();
  recorder->on_block = [&](const SampleBlock&) {
    most = std::max<int64_t>(most, engine_->Stats().buffer_bytes);
  };
  engine_->Sample(call_, SampleOf("c", 1000, 4), recorder);
  ASSERT_TRUE(recorder->Wait().ok());
  EXPECT_EQ(recorder->values(), 4000);
  EXPECT_EQ(most, 4 * (4 * 4 * 64));  // four tiles at a time
}

// What a density keeps between steps comes from the same pool, and does not grow either.
TEST_F(EngineAdmissionTest, DensitiesHoldBufferMemoryForAFewTiles) {
  options_.max_slices_per_tick = 8;
  backend_options_.buffer_pool_bytes = 6 * (4 * 64);
  Start();
  backend_.CloseGate();
  Answer<LogDensityResult> answer;
  engine_->LogDensity(call_, DensityOf("c", 1000, 4), answer.callback());
  backend_.LetThrough(3);
  EXPECT_EQ(engine_->Stats().buffer_bytes, 3 * (4 * 64));  // half of the pool
  backend_.OpenGate();
  EXPECT_TRUE(answer.Wait().ok());
}

TEST_F(EngineAdmissionTest, DensitiesWaitForBufferMemory) {
  options_.max_unacknowledged_values = 1;
  StartWithOneBuffer();
  std::shared_ptr<Call> call;
  auto slow_reader = Draw(4, 16, &call);
  slow_reader->WaitForValues(1);
  Answer<LogDensityResult> answer;
  engine_->LogDensity(call_, DensityOf("c", 1, 1), answer.callback());
  EXPECT_EVENTUALLY(engine_->Stats().queued == 1);
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(answer.has_come());
  call->Acknowledge(64);
  EXPECT_TRUE(answer.Wait().ok());
  EXPECT_TRUE(slow_reader->Wait().ok());
}

TEST_F(EngineAdmissionTest, SessionsShareEveryTick) {
  Start();
  backend_.microseconds_per_step = 100;
  backend_.CloseGate();
  auto wide = Draw(200, 16);
  auto narrow = Draw(4, 16);
  std::atomic<int64_t> wide_when_narrow_ended{0};
  narrow->on_done = [&] { wide_when_narrow_ended = wide->values(); };
  backend_.OpenGate();
  EXPECT_TRUE(narrow->Wait().ok());
  EXPECT_TRUE(wide->Wait().ok());
  // One tile against fifty: alone it would take a fiftieth of the wide one's time.
  EXPECT_LT(wide_when_narrow_ended, 200 * 16 / 3);
  EXPECT_LE(backend_.most_slices, 4);
}

TEST_F(EngineAdmissionTest, ASlowReaderStopsOnlyItself) {
  options_.max_unacknowledged_values = 8;
  Start();
  std::shared_ptr<Call> call;
  auto slow = Draw(4, 16, &call);
  slow->WaitForValues(8);
  for (int i = 0; i < 3; ++i) {
    std::shared_ptr<Call> other_call;
    Mutex mutex;
    auto other = std::make_shared<SampleRecorder>();
    // Acknowledges from the engine thread, as a server's stream may.
    other->on_block = [&](const SampleBlock& block) {
      MutexLock lock(&mutex);
      other_call->Acknowledge(static_cast<int64_t>(block.values.size()));
    };
    {
      MutexLock lock(&mutex);  // held until there is a call to acknowledge to
      other_call = engine_->Sample(call_, SampleOf("c", 1, 4), other);
    }
    EXPECT_TRUE(other->Wait().ok());
  }
  EXPECT_LT(slow->values(), 8 + 4);  // at most one step of one tile beyond the limit
  const int64_t before = slow->values();
  const int64_t ticks = backend_.ticks;
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(slow->values(), before);
  EXPECT_EQ(backend_.ticks, ticks) << "the engine is busy with nothing to do";
  call->Acknowledge(before);
  slow->WaitForValues(before + 1);
  EXPECT_GT(slow->values(), before);
  call->Acknowledge(1000);
  EXPECT_TRUE(slow->Wait().ok());
  EXPECT_EQ(slow->values(), 64);
}

TEST_F(EngineAdmissionTest, CancelledWhileQueued) {
  StartWithOneBuffer();
  backend_.CloseGate();
  auto running = Draw(4, 16);
  EXPECT_EVENTUALLY(engine_->Stats().running == 1);
  std::shared_ptr<Call> call;
  auto queued = Draw(4, 16, &call);
  call->Cancel();
  backend_.LetThrough(1);
  EXPECT_EQ(queued->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(running->is_done());
  backend_.OpenGate();
  EXPECT_TRUE(running->Wait().ok());
}

TEST_F(EngineAdmissionTest, CancelledWhileTheContextIsReadOrEncoded) {
  StartEngine();
  Register("c");
  store_.HoldReads();
  std::shared_ptr<Call> call;
  auto reading = Draw(1, 1, &call);
  EXPECT_EVENTUALLY(store_.reads == 1);
  call->Cancel();
  EXPECT_EQ(reading->Wait().code(), absl::StatusCode::kCancelled);
  backend_.CloseGate();
  store_.LetReadsGo();
  auto encoding = Draw(1, 1, &call);
  EXPECT_EVENTUALLY(backend_.encodings == 1);
  call->Cancel();
  backend_.LetThrough(1);
  EXPECT_EQ(encoding->Wait().code(), absl::StatusCode::kCancelled);
  // An encoding that has begun is finished for later requests.
  backend_.OpenGate();
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kResident);
  EXPECT_EQ(backend_.encodings, 1);
}

TEST_F(EngineAdmissionTest, CancelledWhileRunningStopsWithinOneTickAndFreesItsBuffers) {
  Start();
  backend_.CloseGate();
  std::shared_ptr<Call> call;
  auto recorder = Draw(40, 16, &call);
  recorder->on_done = [this] {
    EXPECT_EQ(engine_->Stats().buffer_bytes, 0);
    EXPECT_EQ(engine_->Stats().running, 0);
  };
  backend_.LetThrough(3);
  const int64_t ticks = backend_.ticks;
  call->Cancel();
  backend_.OpenGate();
  EXPECT_EQ(recorder->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_LE(backend_.ticks, ticks + 1);
  call->Cancel();  // no-ops
  call->Acknowledge(10);
}

TEST_F(EngineAdmissionTest, ADeadlineEndsAStreamInItsMiddle) {
  Start();
  backend_.step_time = absl::Minutes(1);
  auto recorder = Draw(1000, 16, nullptr, clock_.Now() + absl::Hours(1));
  EXPECT_EQ(recorder->Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GT(recorder->values(), 0);
  EXPECT_EQ(engine_->Stats().buffer_bytes, 0);
}

TEST_F(EngineAdmissionTest, ADeadlineEndsAStalledStreamAndAWait) {
  options_.max_unacknowledged_values = 1;
  options_.max_queue_wait = absl::Hours(24);
  options_.max_unread = absl::Hours(24);
  StartWithOneBuffer();
  const absl::Time deadline = clock_.Now() + absl::Hours(1);
  auto stalled = Draw(4, 16, nullptr, deadline);
  auto queued = Draw(4, 16, nullptr, deadline);
  auto late = Draw(1, 1, nullptr, clock_.Now() - absl::Seconds(1));
  EXPECT_EQ(late->Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(SkipUntil(absl::Minutes(1), [&] { return stalled->is_done() && queued->is_done(); }));
  EXPECT_EQ(stalled->Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(queued->Wait().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(EngineAdmissionTest, DecodesInStepTakeAsManyStepsAsTheTickHolds) {
  backend_options_.decodes_in_step = true;
  options_.max_slices_per_tick = 16;
  options_.target_tick = absl::Seconds(20);  // room for many steps on the busiest machine
  Start();
  backend_.microseconds_per_step = 100;
  backend_.CloseGate();
  std::vector<std::shared_ptr<SampleRecorder>> recorders;
  for (int i = 0; i < 3; ++i) recorders.push_back(Draw(4 * (i + 1), 16));
  backend_.OpenGate();  // one of them may have begun alone, the others join it
  for (auto& recorder : recorders) ASSERT_TRUE(recorder->Wait().ok());
  int64_t most_decodes = 0;
  int64_t most_steps = 0;
  for (const auto& tick : backend_.decode_ticks()) {
    EXPECT_TRUE(tick.together);
    most_decodes = std::max(most_decodes, tick.decodes);
    most_steps = std::max(most_steps, tick.steps);
  }
  EXPECT_GT(most_decodes, 3);
  EXPECT_GT(most_steps, 1);  // the engine has learnt how long a step takes
}

TEST_F(EngineAdmissionTest, ResultsDoNotDependOnCompany) {
  Start();
  auto alone = Draw(9, 7);
  ASSERT_TRUE(alone->Wait().ok());
  std::vector<std::shared_ptr<SampleRecorder>> recorders;
  for (int i = 0; i < 30; ++i) recorders.push_back(Draw(9, 7));
  for (auto& recorder : recorders) {
    ASSERT_TRUE(recorder->Wait().ok());
    EXPECT_EQ(recorder->ByTarget(9, 7), alone->ByTarget(9, 7));
  }
}

TEST_F(EngineAdmissionTest, PredictionsWaitForBufferMemoryToo) {
  backend_options_.rows_bytes_per_row = 64;
  backend_options_.predict_bytes_per_row = 64;
  backend_options_.buffer_pool_bytes = 300 * 64 + 128 * 64;  // 300 rows and one piece of them
  Start();
  PredictRequest request = PredictOf("c", 300);
  backend_.CloseGate();
  Answer<PredictResult> first;
  Answer<PredictResult> second;
  engine_->Predict(call_, request, first.callback());
  EXPECT_EVENTUALLY(engine_->Stats().running == 1);
  engine_->Predict(call_, request, second.callback());
  backend_.LetThrough(1);  // the rows, and then the engine takes note of the second
  EXPECT_EVENTUALLY(engine_->Stats().running == 1 && engine_->Stats().queued == 1);
  EXPECT_EQ(engine_->Stats().buffer_bytes, (300 + 128) * 64);
  backend_.OpenGate();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(second.Wait().ok());
  EXPECT_EQ(engine_->Stats().buffer_bytes, 0);
  Answer<PredictResult> too_large;
  engine_->Predict(call_, PredictOf("c", 301), too_large.callback());
  EXPECT_EQ(too_large.Wait().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace chorale::testing
