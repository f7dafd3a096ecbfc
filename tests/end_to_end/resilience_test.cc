// Readers that stall, clients that vanish, deadlines and deletions in mid-stream: each hurts only
// itself, and leaves nothing behind.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/relay.h"
#include "tests/end_to_end/shared_server.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

class ResilienceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = SharedServer::Start().release();
    ASSERT_NE(server_, nullptr);
  }
  static void TearDownTestSuite() {
    if (server_ != nullptr) server_->Terminate();
    delete server_;
  }
  void SetUp() override { ASSERT_NE(server_, nullptr); }
  void TearDown() override {
    if (server_ != nullptr) server_->ExpectUndisturbed();
  }

  static bool BuffersInUse() {
    return server_->Metrics().Value("chorale_pool_used_bytes", "pool=\"buffer\"") > 0;
  }
  static double PathSteps() { return server_->Metrics().Value("chorale_values_total"); }

  static SharedServer* server_;
};

SharedServer* ResilienceTest::server_ = nullptr;

TEST_F(ResilienceTest, ASlowReaderSlowsOnlyItself) {
  const v1::SampleRequest request = SharedServer::LongSession();
  const Samples expected = server_->client().Sample(request);
  ASSERT_EQ(Difference(expected, expected), "");
  const int64_t before = server_->process().ResidentBytes();

  const ApiClient slow_client(server_->address(), ReceiveWindow::kSmall);
  SampleStream slow(slow_client.stub(), request);
  ASSERT_TRUE(slow.ReadOne());
  // It stops being advanced, long before its end.
  const double start_steps = PathSteps();
  double steps = -1;
  ASSERT_TRUE(Eventually([&] {
    const double earlier = std::exchange(steps, PathSteps());
    absl::SleepFor(absl::Milliseconds(300));
    return steps == earlier;
  }));
  EXPECT_LT(steps - start_steps, 0.8 * expected.values.size());
  EXPECT_TRUE(BuffersInUse());
  // Its memory is bounded: buffers, values not yet sent, a flow-control window.
  const int64_t buffers =
      static_cast<int64_t>(server_->Metrics().Value("chorale_pool_used_bytes", "pool=\"buffer\""));
  if (!kSanitized) {
    EXPECT_LT(server_->process().ResidentBytes() - before, buffers + (24 << 20));
  }

  // No slower than without it; a busy machine delays some, but not all.
  const absl::Duration limit = 2 * server_->undisturbed_time() + absl::Milliseconds(300);
  absl::Duration fastest = absl::InfiniteDuration();
  int others = 0;
  for (; others < 3 || (others < 20 && fastest >= limit); ++others) {
    const absl::Time start = absl::Now();
    const Samples other = server_->client().Sample(SharedServer::ShortSession());
    fastest = std::min(fastest, absl::Now() - start);
    EXPECT_EQ(Difference(other, server_->undisturbed()), "");
  }
  EXPECT_LT(fastest, limit);
  // The slow one may have moved by what the network's buffers took meanwhile, and no more.
  const auto values_of_others = static_cast<double>(others * server_->undisturbed().values.size());
  const double moved = PathSteps() - steps - values_of_others;
  EXPECT_GE(moved, 0);
  EXPECT_LE(moved, 0.05 * expected.values.size());

  EXPECT_EQ(Difference(slow.Finish(), expected), "");
}

TEST_F(ResilienceTest, CancellingStopsTheWork) {
  SampleStream stream(server_->client().stub(), SharedServer::LongSession());
  ASSERT_TRUE(stream.ReadOne());
  EXPECT_TRUE(BuffersInUse());
  stream.Cancel();
  const Samples samples = stream.Finish();
  EXPECT_EQ(samples.status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_FALSE(samples.has_summary);
  EXPECT_TRUE(Eventually([] { return !BuffersInUse(); }));
}

TEST_F(ResilienceTest, AVanishedClientLeavesNothingBehind) {
  Relay relay(server_->address());
  const ApiClient doomed(relay.address());
  SampleStream stream(doomed.stub(), SharedServer::LongSession());
  ASSERT_TRUE(stream.ReadOne());
  EXPECT_TRUE(BuffersInUse());
  relay.Break();
  EXPECT_TRUE(Eventually([] { return !BuffersInUse(); }));
  EXPECT_EQ(stream.Finish().status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ResilienceTest, AClientThatVanishesWhileRegisteringRegistersNothing) {
  Relay relay(server_->address());
  const ApiClient doomed(relay.address());
  grpc::ClientContext context;
  v1::RegisterContextResponse response;
  const auto writer = doomed.stub().RegisterContext(&context, &response);
  v1::RegisterContextRequest message;
  message.mutable_spec()->set_context_id("half");
  message.mutable_spec()->set_target_column("y");
  ASSERT_TRUE(writer->Write(message));
  *message.mutable_rows() = ContextTable(RandomRows(50, 3, 4), 0, 50);
  ASSERT_TRUE(writer->Write(message));
  absl::SleepFor(absl::Milliseconds(100));
  relay.Break();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(server_->client().Get("half").status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ResilienceTest, ADeadlineInMidStreamFreesTheBuffers) {
  v1::SampleRequest request = SharedServer::LongSession();
  request.set_path_count(16 * request.path_count());
  SampleStream stream(server_->client().stub(), request, absl::Seconds(2));
  ASSERT_TRUE(stream.ReadOne());
  const Samples samples = stream.Finish();
  EXPECT_EQ(samples.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([] { return !BuffersInUse(); }));
}

TEST_F(ResilienceTest, ADeadlineAlsoEndsOtherCalls) {
  v1::LogDensityRequest request =
      MakeLogDensity("data", RandomRows(1000, 3, 9), std::vector<double>(300 * 1000, 0.5));
  request.set_random_order_count(12);  // many times as long as the deadline
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
  v1::LogDensityResponse response;
  const absl::Time start = absl::Now();
  EXPECT_EQ(server_->client().stub().LogDensity(&context, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  // The server has stopped too: the next one is served as if nothing had been.
  const Samples other = server_->client().Sample(SharedServer::ShortSession());
  EXPECT_EQ(Difference(other, server_->undisturbed()), "");
  EXPECT_LT(absl::Now() - start, 2 * server_->undisturbed_time() + absl::Seconds(11));
}

TEST_F(ResilienceTest, DeletingAContextFinishesTheStreamsOnIt) {
  ASSERT_TRUE(server_->client().Register("doomed", RandomRows(150, 3, 5)).ok());
  v1::SampleRequest request = SharedServer::LongSession();
  request.set_context("contexts/doomed");
  const Samples expected = server_->client().Sample(request);
  const double bytes = server_->Metrics().Value("chorale_pool_used_bytes", "pool=\"context\"");

  SampleStream stream(server_->client().stub(), request);
  ASSERT_TRUE(stream.ReadOne());
  ASSERT_TRUE(server_->client().Delete("doomed").ok());
  EXPECT_EQ(server_->client().Get("doomed").status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(server_->client().Sample(request).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(BuffersInUse()) << "the stream was over too soon";
  // Another context may take the name while the old one is still in use.
  ASSERT_TRUE(server_->client().Register("doomed", RandomRows(160, 3, 6)).ok());
  EXPECT_EQ(Difference(stream.Finish(), expected), "");
  EXPECT_TRUE(Eventually([&] {
    return server_->Metrics().Value("chorale_pool_used_bytes", "pool=\"context\"") < bytes;
  }));

  const Samples renewed = server_->client().Sample(request);
  EXPECT_TRUE(renewed.complete()) << renewed.status.error_message();
  EXPECT_FALSE(SameBits(renewed, expected)) << "the old content answers under the new name";
  ASSERT_TRUE(server_->client().Delete("doomed").ok());
}

}  // namespace
}  // namespace chorale::end_to_end
