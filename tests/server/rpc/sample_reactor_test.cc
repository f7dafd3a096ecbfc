#include "server/rpc/sample_reactor.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"

namespace chorale {
namespace {

class SampleReactorTest : public ServerFixture {
 protected:
  void SetUp() override {
    StartServer();
    OpenServer();
  }
};

using Reader = std::unique_ptr<grpc::ClientReader<v1::SampleResponse>>;

TEST_F(SampleReactorTest, BlocksThenSummaryThenOk) {
  auto context = NewContext();
  Reader reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  EXPECT_EQ(engine_->last_call().tenant, "default");
  EXPECT_EQ(sample->request.context, "houses");
  EXPECT_EQ(sample->request.paths, 4);
  EXPECT_EQ(sample->request.seed, 17);
  EXPECT_LT(engine_->last_call().deadline, clock_.Now() + absl::Seconds(31));
  EXPECT_GT(engine_->last_call().deadline, clock_.Now() + absl::Seconds(20));

  sample->Draw(0, 4, 0, 2);
  v1::SampleResponse response;
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_EQ(response.blocks().blocks_size(), 1);
  EXPECT_EQ(response.blocks().blocks(0).path_count(), 4);
  EXPECT_THAT(response.blocks().blocks(0).values(),
              ::testing::ElementsAre(0, 1, 1000, 1001, 2000, 2001, 3000, 3001));
  EXPECT_TRUE(Eventually([&] { return sample->call->acknowledged() == 8; }));

  sample->Draw(0, 4, 2, 1);
  sample->summary.seed = 99;
  sample->summary.timings.total = absl::Seconds(2);
  sample->call->End(absl::OkStatus());
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.blocks().blocks(0).first_step(), 2);
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_TRUE(response.has_summary());
  EXPECT_EQ(response.summary().seed(), 99);
  EXPECT_EQ(response.summary().timings().total().seconds(), 2);
  EXPECT_FALSE(reader->Read(&response));
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(sample->call->acknowledged(), 12);
  EXPECT_EQ(sample->call->cancels(), 0);
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
}

TEST_F(SampleReactorTest, AValidatedCallIsASummaryWithAnEstimate) {
  auto context = NewContext();
  v1::SampleRequest request = SampleMessage();
  request.set_validate_only(true);
  Reader reader = stub_->Sample(context.get(), request);
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  EXPECT_TRUE(sample->request.validate_only);
  sample->summary.estimate = Estimate{1234, absl::Milliseconds(2250)};
  sample->call->End(absl::OkStatus());
  v1::SampleResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.summary().estimate().device_bytes(), 1234);
  EXPECT_EQ(response.summary().estimate().duration().seconds(), 2);
  EXPECT_EQ(response.summary().estimate().duration().nanos(), 250'000'000);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());
}

// The engine is faster than the network: queued blocks are batched, and large ones are split.
TEST_F(SampleReactorTest, MessagesAreGatheredAndBounded) {
  auto context = NewContext();
  Reader reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  constexpr int64_t kPaths = 64;
  constexpr int64_t kSmallBlocks = 2000;
  constexpr int64_t kLargePaths = 1000;
  constexpr int64_t kLargeSteps = 200;
  // Prepared in advance: how many go into one message depends on how fast they come.
  std::vector<SampleBlock> blocks;
  for (int64_t i = 0; i < kSmallBlocks; ++i) blocks.push_back(MakeBlock(0, kPaths, i, 1));
  blocks.push_back(MakeBlock(kPaths, kLargePaths, 0, kLargeSteps));  // 1.6 MB in one block
  for (SampleBlock& block : blocks) sample->observer->OnBlock(std::move(block));
  sample->call->End(absl::OkStatus());

  v1::SampleResponse response;
  std::set<double> values;
  int64_t count = 0;
  int64_t messages = 0;
  while (reader->Read(&response) && response.has_blocks()) {
    ++messages;
    EXPECT_LE(response.ByteSizeLong(), SampleReactor::kMessageBytes + (64 << 10));
    for (const v1::SampleBlock& block : response.blocks().blocks()) {
      ASSERT_EQ(block.values_size(), block.path_count() * block.step_count());
      for (int64_t p = 0; p < block.path_count(); ++p) {
        for (int64_t s = 0; s < block.step_count(); ++s) {
          const double value = block.values(p * block.step_count() + s);
          ASSERT_EQ(value, (block.first_path() + p) * 1000 + block.first_step() + s);
          // Paths and steps of the two shapes give different values but for these.
          if (block.first_path() >= kPaths) values.insert(value);
          ++count;
        }
      }
    }
  }
  EXPECT_TRUE(response.has_summary());
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(count, kSmallBlocks * kPaths + kLargePaths * kLargeSteps);
  EXPECT_EQ(values.size(), kLargePaths * kLargeSteps);  // each exactly once
  // 1 MB of small blocks and 1.6 MB of the large one make some twelve messages, not two thousand.
  EXPECT_LT(messages, 200);
  EXPECT_GE(messages, 10);
  EXPECT_EQ(sample->call->acknowledged(), count);
}

// A client that does not read: only values that were written to it are acknowledged.
TEST_F(SampleReactorTest, ASlowReaderHoldsBackAcknowledgements) {
  auto context = NewContext();
  Reader reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  // 64 MB, far more than the connection's windows and socket buffers take.
  constexpr int64_t kBlocks = 64;
  constexpr int64_t kValues = 128 << 10;
  for (int64_t i = 0; i < kBlocks; ++i) sample->Draw(0, 128, 0, 1 << 10);
  int64_t before = -1;
  ASSERT_TRUE(Eventually([&] {
    const int64_t now = sample->call->acknowledged();
    const bool still = now == before && now > 0;
    before = now;
    absl::SleepFor(absl::Milliseconds(100));
    return still;
  }));
  EXPECT_LT(before, kBlocks * kValues / 2) << "the server did not wait for its client";
  // It is still alive, and gets everything once it reads.
  sample->call->End(absl::OkStatus());
  v1::SampleResponse response;
  int64_t count = 0;
  while (reader->Read(&response)) {
    for (const v1::SampleBlock& block : response.blocks().blocks()) count += block.values_size();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(count, kBlocks * kValues);
  EXPECT_EQ(sample->call->acknowledged(), count);
}

TEST_F(SampleReactorTest, AClientThatGoesAwayCancelsTheEnginesCall) {
  auto context = NewContext();
  Reader reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  sample->Draw(0, 4, 0, 1);
  v1::SampleResponse response;
  ASSERT_TRUE(reader->Read(&response));
  context->TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return sample->call->cancels() > 0; }));
  sample->Draw(0, 4, 1, 1);  // too late, and harmless
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
}

TEST_F(SampleReactorTest, TheDeadlineCancelsTheEnginesCall) {
  std::shared_ptr<FakeSample> sample;
  // Until the call reaches the engine before its deadline.
  for (auto timeout = absl::Milliseconds(100); sample == nullptr && timeout < kPatience;
       timeout *= 2) {
    auto context = NewContext(timeout);
    Reader reader = stub_->Sample(context.get(), SampleMessage());
    sample = engine_->NextSample(timeout);
    v1::SampleResponse response;
    EXPECT_FALSE(reader->Read(&response));
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  ASSERT_NE(sample, nullptr);
  EXPECT_TRUE(Eventually([&] { return sample->call->cancels() > 0; }));
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
}

TEST_F(SampleReactorTest, AnErrorOfTheEngineEndsTheStream) {
  auto context = NewContext();
  Reader reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  sample->call->End(absl::NotFoundError("no context \"houses\""));
  v1::SampleResponse response;
  EXPECT_FALSE(reader->Read(&response));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no context \"houses\"");
}

TEST_F(SampleReactorTest, AMalformedRequestNeverReachesTheEngine) {
  auto context = NewContext();
  v1::SampleRequest request = SampleMessage(/*paths=*/1);
  request.set_context("houses");
  Reader reader = stub_->Sample(context.get(), request);
  v1::SampleResponse response;
  EXPECT_FALSE(reader->Read(&response));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(status), "context");
}

class StalledWriteTest : public ServerFixture {
 protected:
  void SetUp() override {
    options_.stalled_write_timeout = absl::Hours(1);
    StartServer();
    OpenServer();
  }
};

TEST_F(StalledWriteTest, TheWatchdogEndsAStalledStreamAndNoOther) {
  // Idle, with no write in flight, for longer than the timeout: that is no stall.
  const std::unique_ptr<v1::Chorale::Stub> other = v1::Chorale::NewStub(NewChannel());
  auto idle_context = NewContext(absl::Hours(24));
  Reader idle = other->Sample(idle_context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> second = engine_->NextSample();
  ASSERT_NE(second, nullptr);

  auto stalled_context = NewContext(absl::Hours(24));
  Reader stalled = stub_->Sample(stalled_context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> first = engine_->NextSample();
  ASSERT_NE(first, nullptr);
  for (int64_t i = 0; i < 64; ++i) first->Draw(0, 128, 0, 1 << 10);  // nobody reads

  EXPECT_TRUE(SkipUntil(absl::Minutes(15), [&] { return first->call->cancels() > 0; }));
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 1; }));
  EXPECT_EQ(second->call->cancels(), 0);
  second->Draw(0, 1, 0, 1);
  second->call->End(absl::OkStatus());
  v1::SampleResponse response;
  EXPECT_TRUE(idle->Read(&response));
  EXPECT_TRUE(idle->Read(&response));
  EXPECT_TRUE(idle->Finish().ok());
  stalled_context->TryCancel();
}

TEST_F(SampleReactorTest, AStreamThatTheEngineEndsForWantOfAReaderEndsAtOnce) {
  auto context = NewContext();
  Reader reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  for (int64_t i = 0; i < 64; ++i) sample->Draw(0, 128, 0, 1 << 10);  // nobody reads
  sample->call->End(ExhaustedRetryAfter(ErrorReason::kResponsesUnread,
                                        "nothing of the stream was read", absl::Seconds(1)));
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
  v1::SampleResponse response;
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "nothing of the stream was read");
}

// A device that fails, or a server that shuts down, ends the stream, but not what it has drawn.
TEST_F(SampleReactorTest, WhatWasDrawnBeforeTheServerStopsIsSent) {
  auto context = NewContext();
  Reader reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  constexpr int kSteps = 40;
  for (int step = 0; step < kSteps; ++step) sample->Draw(0, 256, step, 1);
  sample->call->End(absl::UnavailableError("the server stops"));
  int64_t values = 0;
  for (v1::SampleResponse response; reader->Read(&response);) {
    for (const v1::SampleBlock& block : response.blocks().blocks()) {
      values += block.values_size();
    }
  }
  EXPECT_EQ(values, 256 * kSteps);
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the server stops");
}

// Streams end in all ways at the same time; each finishes exactly once and none remains.
TEST_F(SampleReactorTest, ManyStreamsEndInEveryWay) {
  constexpr int kStreams = 60;
  std::atomic<int> ok{0};
  std::atomic<int> failed{0};
  std::thread engine_thread([&] {
    for (int i = 0; ok + failed < kStreams; ++i) {
      const std::shared_ptr<FakeSample> sample = engine_->NextSample(absl::Milliseconds(20));
      if (sample == nullptr) continue;
      for (int step = 0; step < 10; ++step) sample->Draw(0, 4, step, 1);
      if (i % 3 != 2) sample->call->End(absl::OkStatus());  // the others wait to be cancelled
    }
  });
  std::vector<std::thread> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back([&, i] {
      auto context = NewContext(i % 5 == 4 ? absl::Milliseconds(50) : absl::Seconds(2));
      Reader reader = stub_->Sample(context.get(), SampleMessage());
      v1::SampleResponse response;
      reader->Read(&response);
      if (i % 4 == 3) context->TryCancel();
      while (reader->Read(&response)) {
      }
      reader->Finish().ok() ? ++ok : ++failed;
    });
  }
  EXPECT_TRUE(Eventually([&] { return ok > 0; }));
  server_->CutShort();  // while they are in flight
  for (std::thread& client : clients) client.join();
  engine_thread.join();
  EXPECT_EQ(ok + failed, kStreams);
  EXPECT_GT(failed, 0);
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
}

}  // namespace
}  // namespace chorale
