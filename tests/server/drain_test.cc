// Drains: which calls they wait for, and which they end.
#include <atomic>
#include <memory>
#include <thread>

#include "absl/time/clock.h"
#include "base/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/server.h"
#include "tests/server/server_fixture.h"
#include "tests/support/eventually.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

class DrainTest : public ServerFixture {
 protected:
  void SetUp() override {
    options_.stalled_write_timeout = absl::Hours(24);
    StartServer();
    OpenServer();
  }
};

TEST_F(DrainTest, DrainLetsStreamsFinishAndRefusesNewCalls) {
  auto context = NewContext();
  auto reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  std::atomic<bool> drained{false};
  std::thread drain([&] {
    server_->Drain(clock_.Now() + kPatience);
    drained = true;
  });
  v1::PredictResponse refused;
  EXPECT_TRUE(Eventually([&] {
    return stub_->Predict(NewContext(absl::Milliseconds(200)).get(), PredictMessage(), &refused)
               .error_code() == grpc::StatusCode::UNAVAILABLE;
  }));
  EXPECT_FALSE(drained);
  sample->Draw(0, 4, 0, 3);
  sample->call->End(absl::OkStatus());
  v1::SampleResponse response;
  EXPECT_TRUE(reader->Read(&response));
  EXPECT_TRUE(reader->Read(&response));
  EXPECT_TRUE(response.has_summary());
  EXPECT_TRUE(reader->Finish().ok());
  drain.join();
  EXPECT_EQ(server_->live_calls(), 0);
}

TEST_F(DrainTest, DrainCutsShortWhatIsLeftAtItsDeadline) {
  auto context = NewContext(absl::Hours(24));
  auto reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  sample->Draw(0, 4, 0, 3);
  // This call ends in the engine, but its client does not read the values.
  const auto other = v1::Chorale::NewStub(NewChannel());
  auto stalled_context = NewContext(absl::Hours(24));
  auto stalled = other->Sample(stalled_context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> unread = engine_->NextSample();
  ASSERT_NE(unread, nullptr);
  for (int i = 0; i < 64; ++i) unread->Draw(0, 128, 0, 1 << 10);
  unread->call->End(absl::OkStatus());
  // And this one has not sent its request.
  const auto third = v1::Chorale::NewStub(NewChannel());
  auto upload_context = NewContext(absl::Hours(24));
  v1::RegisterContextResponse registered;
  auto upload = third->RegisterContext(upload_context.get(), &registered);
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 3; }));

  std::thread drain([&] { server_->Drain(clock_.Now() + absl::Hours(1)); });
  EXPECT_TRUE(SkipUntil(absl::Minutes(15), [&] { return server_->live_calls() == 0; }));
  drain.join();
  v1::SampleResponse response;
  EXPECT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.blocks().blocks(0).values_size(), 12);
  EXPECT_FALSE(reader->Read(&response));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(),
              HasSubstr("the server shut down before the call was complete"));
  while (stalled->Read(&response)) {
  }
  EXPECT_EQ(stalled->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(upload->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(DrainTest, CutShortEndsADrainAtOnce) {
  auto context = NewContext();
  auto reader = stub_->Sample(context.get(), SampleMessage());
  ASSERT_NE(engine_->NextSample(), nullptr);
  const absl::Time begin = clock_.Now();
  std::thread drain([&] { server_->Drain(clock_.Now() + 2 * kPatience); });
  absl::SleepFor(absl::Milliseconds(50));
  server_->CutShort();
  drain.join();
  EXPECT_LT(clock_.Now() - begin, kPatience);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

class DrainOfAHungDiskTest : public ServerFixture {};

TEST_F(DrainOfAHungDiskTest, EndsItsCallsNevertheless) {
  Notification hangs;
  Notification hangs_no_longer;
  engine_->on_store_health = [&] {
    hangs.Notify();
    hangs_no_longer.Wait();
  };
  options_.health_period = absl::Milliseconds(10);
  StartServer();
  OpenServer();
  hangs.Wait();
  auto context = NewContext();
  auto reader = stub_->Sample(context.get(), SampleMessage());
  ASSERT_NE(engine_->NextSample(), nullptr);
  std::thread drain([&] { server_->Drain(clock_.Now()); });
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  hangs_no_longer.Notify();
  drain.join();
}

}  // namespace
}  // namespace chorale
