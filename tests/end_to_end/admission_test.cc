// More than the server has room for: what fits later waits its turn, what does not is refused with
// a time to try again, and what never can is refused for good.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/shared_server.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;

// Paths run 32 at a time, and those take 32 * 2 * 32 * (1008 + 1000) * 4 = 16.4 MB of buffers: a
// pool of 20 MiB holds one such session.
v1::SampleRequest WholeRoom(int64_t query_rows = 1000) {
  v1::SampleRequest request = MakeSample("data", RandomRows(query_rows, 3, 4), 64, 8);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  return request;
}

// A session that keeps the whole room until it is dropped: far more values than are drawn ahead of
// a reader, and nobody reads them.
class UnreadSession {
 public:
  explicit UnreadSession(const std::string& address)
      : client_(address, ReceiveWindow::kSmall), stream_(client_.stub(), Request()) {
    EXPECT_TRUE(stream_.ReadOne());
  }
  void Drop() {
    stream_.Cancel();
    stream_.Finish();
  }

 private:
  static v1::SampleRequest Request() {
    v1::SampleRequest request = WholeRoom();
    request.set_path_count(512);
    return request;
  }
  ApiClient client_;
  SampleStream stream_;
};

void ExpectTryAgain(const grpc::Status& status) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  const ErrorDetails details = DetailsOf(status);
  EXPECT_TRUE(details.has_retry_delay);
  EXPECT_GT(details.retry_delay, absl::ZeroDuration());
  EXPECT_LE(details.retry_delay, absl::Minutes(1));
}

double Queued(const SharedServer& server) {
  return server.Metrics().Value("chorale_sessions", "state=\"queued\"");
}

TEST(AdmissionTest, TheQueueTakesWhatItHoldsAndRefusesTheRest) {
  const auto server = SharedServer::Start({"--buffer_pool_mib=20", "--max_queued=2"});
  ASSERT_NE(server, nullptr);
  const Samples expected = server->client().Sample(WholeRoom());
  ASSERT_EQ(Difference(expected, expected), "");

  UnreadSession running(server->address());
  constexpr int kMore = 5;
  std::vector<Samples> results(kMore);
  std::vector<std::thread> callers;
  std::atomic<int> refused{0};
  for (int i = 0; i < kMore; ++i) {
    callers.emplace_back([&, i] {
      results[i] = ApiClient(server->address()).Sample(WholeRoom());
      if (!results[i].status.ok()) ++refused;
    });
  }
  // The refusals come at once, while the others still wait.
  EXPECT_TRUE(Eventually([&] { return refused == kMore - 2; }));
  EXPECT_EQ(Queued(*server), 2);
  running.Drop();
  for (std::thread& caller : callers) caller.join();
  int served = 0;
  for (const Samples& samples : results) {
    if (samples.status.ok()) {
      EXPECT_EQ(Difference(samples, expected), "");
      ++served;
    } else {
      ExpectTryAgain(samples.status);
    }
  }
  EXPECT_EQ(served, 2);
  EXPECT_EQ(server->Metrics().Value("chorale_rejected_total", "queue_full"), kMore - 2);
  server->ExpectUndisturbed();
  server->Terminate();
}

TEST(AdmissionTest, WaitingEndsAndWaitingCanBeCancelled) {
  const auto server = SharedServer::Start({"--buffer_pool_mib=20", "--queue_wait=2s"});
  ASSERT_NE(server, nullptr);
  UnreadSession running(server->address());
  {
    SampleStream cancelled(server->client().stub(), WholeRoom());
    EXPECT_TRUE(Eventually([&] { return Queued(*server) == 1; }));
    cancelled.Cancel();
    EXPECT_EQ(cancelled.Finish().status.error_code(), grpc::StatusCode::CANCELLED);
  }
  // Its place is free at once, not only when its wait would have been over.
  EXPECT_TRUE(Eventually([&] { return Queued(*server) == 0; }, absl::Seconds(1)));
  const absl::Time start = absl::Now();
  const Samples waited = ApiClient(server->address()).Sample(WholeRoom());
  ExpectTryAgain(waited.status);
  EXPECT_GE(absl::Now() - start, absl::Seconds(2));
  running.Drop();
  server->ExpectUndisturbed();
  server->Terminate();
}

TEST(AdmissionTest, WhatNeverFitsIsRefusedForGood) {
  const auto server = SharedServer::Start({"--buffer_pool_mib=20", "--context_pool_mib=1"});
  ASSERT_NE(server, nullptr);
  // 23 MB, even for 32 paths at a time.
  const Samples samples = server->client().Sample(WholeRoom(1400));
  EXPECT_EQ(samples.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(samples.status.error_message(), HasSubstr("bytes"));
  EXPECT_THAT(samples.status.error_message(), HasSubstr("20971520"));
  EXPECT_FALSE(DetailsOf(samples.status).fields.empty());

  // A context that can never be resident is refused when it is registered: 1.5 MB for 1 MiB.
  const auto registered = server->client().Register("too-large", RandomRows(3000, 3, 1));
  EXPECT_EQ(registered.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(registered.status.error_message(), HasSubstr("1048576"));
  EXPECT_EQ(server->client().Get("too-large").status.error_code(), grpc::StatusCode::NOT_FOUND);
  server->ExpectUndisturbed();
  server->Terminate();
}

}  // namespace
}  // namespace chorale::end_to_end
