// Shares between clients: memory, places in the queue, the engine's time.
#include <algorithm>
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error_details.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

using ::testing::HasSubstr;

class EngineFairnessTest : public EngineFixture {
 protected:
  static constexpr int64_t kTile = 4 * 16 * 64;  // bytes of four paths of 16 query rows

  struct Stream {
    std::shared_ptr<SampleRecorder> recorder = std::make_shared<SampleRecorder>();
    std::shared_ptr<Call> call;
  };

  // A buffer pool of so many tiles.
  void Start(int64_t tiles) {
    backend_options_.buffer_pool_bytes = tiles * kTile;
    StartEngine();
    Register("c");
    MakeResident("c");
  }
  Stream Draw(const std::string& client, int64_t paths, int64_t query_rows, double weight = 1,
              absl::Time deadline = absl::InfiniteFuture()) {
    Stream stream;
    stream.call =
        engine_->Sample({.tenant = kTenant, .share = {client, weight}, .deadline = deadline},
                        SampleOf("c", paths, query_rows), stream.recorder);
    return stream;
  }
  std::vector<Stream> DrawMany(int count, const std::string& client, int64_t paths,
                               int64_t query_rows) {
    std::vector<Stream> streams;
    for (int i = 0; i < count; ++i) streams.push_back(Draw(client, paths, query_rows));
    return streams;
  }
  // As much as one request of `one` draws itself, and what the first ticks took. With a share for
  // each request it would be twelve times as much.
  static constexpr int64_t kMostOfMany = 3 * 64 * 16;
  // Twelve requests of one client and one of another, all of 64 paths and 16 query rows.
  int64_t ValuesOfManyWhenOneIsDone() {
    backend_.microseconds_per_step = 50;
    backend_.CloseGate();
    std::atomic<int64_t> drawn{0};
    std::atomic<int64_t> drawn_when_done{0};
    const auto draw = [&](const char* client, const std::shared_ptr<SampleRecorder>& recorder) {
      engine_->Sample({.tenant = kTenant, .share = {client}}, SampleOf("c", 64, 16), recorder);
    };
    std::vector<std::shared_ptr<SampleRecorder>> many(12);
    for (auto& recorder : many) {
      recorder = std::make_shared<SampleRecorder>();
      recorder->on_block = [&](const SampleBlock& block) {
        drawn += static_cast<int64_t>(block.values.size());
      };
      draw("many", recorder);
    }
    const auto one = std::make_shared<SampleRecorder>();
    one->on_done = [&] { drawn_when_done = drawn.load(); };
    draw("one", one);
    backend_.OpenGate();
    EXPECT_TRUE(one->Wait().ok());
    for (const auto& recorder : many) EXPECT_TRUE(recorder->Wait().ok());
    return drawn_when_done;
  }
  static void EndAll(const std::vector<Stream>& streams) {
    for (const Stream& stream : streams) stream.call->Cancel();
    for (const Stream& stream : streams) (void)stream.recorder->Wait();
  }
};

TEST_F(EngineFairnessTest, ASmallRequestStartsAtOnceWhileAnotherClientFillsThePool) {
  options_.max_unacknowledged_values = 1;
  Start(32);
  const auto unread = DrawMany(60, "greedy", 4, 16);
  EXPECT_EVENTUALLY(engine_->Stats().running == 29 && engine_->Stats().queued == 31);
  EXPECT_EQ(engine_->Stats().waiting_clients, 1);
  EXPECT_EQ(engine_->Stats().largest_client_share, 29.0 / 32);
  for (int i = 0; i < 10; ++i) {
    const Stream small = Draw("small", 1, 1);
    EXPECT_TRUE(small.recorder->Wait().ok());
  }
  EXPECT_EQ(engine_->Stats().queued, 31);
  EndAll(unread);
}

TEST_F(EngineFairnessTest, UnreadStreamsBeyondTheirShareMakeRoomForAnotherClient) {
  options_.max_unacknowledged_values = 1;
  options_.max_unread = absl::Hours(24);
  Start(32);
  const auto unread = DrawMany(40, "greedy", 4, 16);
  EXPECT_EVENTUALLY(engine_->Stats().running == 29);
  std::vector<Stream> others = DrawMany(4, "other", 16, 16);  // four tiles each
  for (Stream& other : others) other.call->Acknowledge(16 * 16);
  EXPECT_TRUE(SkipUntil(absl::Milliseconds(250), [&others] {
    return std::all_of(others.begin(), others.end(),
                       [](const Stream& other) { return other.recorder->is_done(); });
  }));
  for (Stream& other : others) EXPECT_TRUE(other.recorder->Wait().ok());
  int64_t ended = 0;
  for (const Stream& stream : unread) {
    if (!stream.recorder->is_done()) continue;
    ++ended;
    const absl::Status status = stream.recorder->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("read"));
    EXPECT_EQ(RetryDelay(status), options_.retry_delay);
  }
  EXPECT_GT(ended, 0);
  // Until half of the pool is left to it. In the place of its small one the next may start and end.
  EXPECT_LE(ended, 14);
  EXPECT_EQ(metrics_.unread_streams, ended);
  EndAll(unread);
}

TEST_F(EngineFairnessTest, AStreamThatIsNotReadEndsAfterTheTimeAllowed) {
  options_.max_unacknowledged_values = 1;
  options_.max_unread = absl::Hours(1);
  Start(32);
  const absl::Time start = clock_.Now();
  const Stream unread = Draw("c", 4, 16);
  EXPECT_TRUE(SkipUntil(absl::Minutes(1), [&] { return unread.recorder->is_done(); }));
  const absl::Status status = unread.recorder->Wait();
  EXPECT_GE(clock_.Now() - start, absl::Hours(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1h"));
  EXPECT_EQ(metrics_.unread_streams, 1);
  EXPECT_EQ(engine_->Stats().buffer_bytes, 0);
}

TEST_F(EngineFairnessTest, AStreamThatIsReadSlowlyGoesOn) {
  options_.max_unacknowledged_values = 1;
  options_.max_unread = absl::Hours(1);
  Start(32);
  const absl::Time start = clock_.Now();
  const Stream slow = Draw("c", 1, 16);
  for (int64_t value = 1; value < 16; ++value) {
    slow.recorder->WaitForValues(value);
    clock_.Skip(options_.max_unread / 2);
    slow.call->Acknowledge(1);
  }
  EXPECT_TRUE(slow.recorder->Wait().ok());
  EXPECT_GT(clock_.Now() - start, 7 * options_.max_unread);
}

TEST_F(EngineFairnessTest, AFullQueueRefusesTheClientThatHasMoreThanItsShare) {
  options_.max_queued = 6;
  Start(1);
  backend_.CloseGate();
  const Stream running = Draw("greedy", 4, 16);
  EXPECT_EVENTUALLY(engine_->Stats().running == 1);
  const auto greedy = DrawMany(10, "greedy", 4, 16);
  EXPECT_EQ(metrics_.rejected("queue_full"), 4);
  const auto modest = DrawMany(5, "modest", 1, 1);
  EXPECT_EQ(metrics_.rejected("queue_full"), 4 + 2);  // half of the places are its own
  backend_.OpenGate();
  int64_t refused = 0;
  for (const auto* streams : {&greedy, &modest}) {
    for (const Stream& stream : *streams) {
      const absl::Status status = stream.recorder->Wait();
      if (status.ok()) continue;
      ++refused;
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(RetryDelay(status), options_.retry_delay);
    }
  }
  EXPECT_TRUE(running.recorder->Wait().ok());
  EXPECT_EQ(refused, 4 + 2 + 3);  // three of the greedy client's were displaced
  EXPECT_EQ(metrics_.rejected("queue_full"), refused);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(greedy[i].recorder->Wait().ok()) << "those that came first keep their places";
    EXPECT_TRUE(modest[i].recorder->Wait().ok());
  }
}

TEST_F(EngineFairnessTest, AClientGetsItsShareOfTheTimeHoweverManyRequestsAnotherHas) {
  Start(128);
  EXPECT_LT(ValuesOfManyWhenOneIsDone(), kMostOfMany);
}

TEST_F(EngineFairnessTest, AndWhereDecodesRunInStepItTakesPartInEveryTick) {
  backend_options_.decodes_in_step = true;
  Start(128);
  EXPECT_LT(ValuesOfManyWhenOneIsDone(), kMostOfMany);
  for (const auto& tick : backend_.decode_ticks()) EXPECT_TRUE(tick.together);
}

TEST_F(EngineFairnessTest, WhoWouldWaitTooLongIsToldAtOnce) {
  options_.max_queue_wait = absl::Seconds(20);
  Start(1);
  backend_.step_time = absl::Milliseconds(100);  // 1.6 s for a tile
  backend_.CloseGate();
  const absl::Time start = clock_.Now();
  const auto busy = DrawMany(31, "busy", 4, 16);  // 49.6 s
  // The work of one client makes no other one wait.
  const Stream other = Draw("other", 1, 1);
  std::atomic<int> refused_early = 0;
  for (const Stream& stream : busy) {
    stream.recorder->on_done = [this, start, &refused_early, recorder = stream.recorder.get()] {
      if (recorder->values() == 0 && clock_.Now() - start < absl::Seconds(15)) ++refused_early;
    };
  }
  backend_.OpenGate();
  EXPECT_TRUE(other.recorder->Wait().ok());
  for (int i : {0, 1}) EXPECT_TRUE(busy[i].recorder->Wait().ok()) << "none of its kind is ahead";
  int refused = 0;
  for (const Stream& stream : busy) {
    const absl::Status status = stream.recorder->Wait();
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_GE(RetryDelay(status), options_.retry_delay);
    EXPECT_LT(RetryDelay(status), absl::Seconds(60));
  }
  EXPECT_GT(refused, 5);
  EXPECT_EQ(refused_early, refused) << "it was known long before their time was over";
  EXPECT_EQ(metrics_.rejected("backlog"), refused);
}

TEST_F(EngineFairnessTest, ResultsDoNotDependOnOtherClients) {
  Start(32);
  const Stream alone = Draw("a", 9, 7);
  ASSERT_TRUE(alone.recorder->Wait().ok());
  std::vector<Stream> streams;
  for (int i = 0; i < 30; ++i)
    streams.push_back(Draw(absl::StrCat("client ", i % 7), 9, 7, 1 + i % 3));
  for (Stream& stream : streams) {
    ASSERT_TRUE(stream.recorder->Wait().ok());
    EXPECT_EQ(stream.recorder->ByTarget(9, 7), alone.recorder->ByTarget(9, 7));
  }
}

}  // namespace
}  // namespace chorale::testing
