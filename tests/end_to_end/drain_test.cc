// SIGTERM: what runs finishes, what comes is refused, and the process ends with exit code 0.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/shared_server.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kStreams = 6;

// Streams that have begun, each on a connection of its own.
class OpenStreams {
 public:
  OpenStreams(const std::string& address, const v1::SampleRequest& request) {
    for (int i = 0; i < kStreams; ++i) {
      clients_.push_back(std::make_unique<ApiClient>(address));
      streams_.push_back(std::make_unique<SampleStream>(clients_.back()->stub(), request));
    }
    for (auto& stream : streams_) EXPECT_TRUE(stream->ReadOne());
  }

  // Reads all of them to their ends, at the same time.
  std::vector<Samples> Finish() {
    std::vector<Samples> results(kStreams);
    std::vector<std::thread> readers;
    for (int i = 0; i < kStreams; ++i) {
      readers.emplace_back([this, &results, i] { results[i] = streams_[i]->Finish(); });
    }
    for (std::thread& reader : readers) reader.join();
    return results;
  }

 private:
  std::vector<std::unique_ptr<ApiClient>> clients_;
  std::vector<std::unique_ptr<SampleStream>> streams_;
};

// A session of which six keep the server busy for a while.
v1::SampleRequest MediumSession() {
  v1::SampleRequest request = MakeSample("data", RandomRows(300, 3, 4), 128, 8);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  return request;
}

TEST(DrainTest, StreamsFinishAndNewCallsAreRefused) {
  const auto server = SharedServer::Start({"--drain_timeout=10m"});
  ASSERT_NE(server, nullptr);
  const Samples expected = server->client().Sample(MediumSession());
  ASSERT_EQ(Difference(expected, expected), "");

  OpenStreams streams(server->address(), MediumSession());
  server->process().Signal(SIGTERM);
  // Readiness fails at once; the streams have a while to go.
  EXPECT_TRUE(Eventually([&] { return Health(server->address()) == "NOT_SERVING"; }));
  EXPECT_TRUE(Eventually([&] {
    return server->client().Predict(MakePredict("data", RandomRows(2, 3, 1))).status.error_code() ==
           grpc::StatusCode::UNAVAILABLE;
  }));
  const Samples refused_stream = server->client().Sample(SharedServer::ShortSession());
  EXPECT_EQ(refused_stream.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(server->process().Wait(absl::ZeroDuration()).has_value())
      << "the streams were over too soon: nothing was tested";

  for (const Samples& samples : streams.Finish()) EXPECT_EQ(Difference(samples, expected), "");
  EXPECT_EQ(server->process().ExitCode(), 0);
}

// What a shutdown has cut short: an error that clients may repeat elsewhere, and a part of the
// values.
void ExpectCutShort(const std::vector<Samples>& streams, const ServerProcess& server) {
  for (const Samples& samples : streams) {
    EXPECT_FALSE(samples.complete()) << "the streams were over too soon: nothing was tested";
    EXPECT_EQ(samples.status.error_code(), grpc::StatusCode::UNAVAILABLE)
        << samples.status.error_message();
    EXPECT_THAT(samples.status.error_message(),
                HasSubstr("shut down before the call was complete"));
    EXPECT_TRUE(std::any_of(samples.values.begin(), samples.values.end(),
                            [](double value) { return !std::isnan(value); }));
  }
  EXPECT_THAT(server.log(), Not(HasSubstr("code=CANCELLED")));
}

TEST(DrainTest, StreamsThatTakeTooLongAreUnavailableAtTheDeadline) {
  const auto server = SharedServer::Start({"--drain_timeout=300ms"});
  ASSERT_NE(server, nullptr);
  OpenStreams streams(server->address(), SharedServer::LongSession());
  server->process().Signal(SIGTERM);
  const std::vector<Samples> results = streams.Finish();
  EXPECT_EQ(server->process().ExitCode(), 0);
  ExpectCutShort(results, server->process());
}

// As orchestrators, wrappers and `timeout` repeat it.
TEST(DrainTest, ARepeatedSigtermChangesNothing) {
  const auto server = SharedServer::Start({"--drain_timeout=10m"});
  ASSERT_NE(server, nullptr);
  const Samples expected = server->client().Sample(MediumSession());
  OpenStreams streams(server->address(), MediumSession());
  server->process().Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return Health(server->address()) == "NOT_SERVING"; }));
  for (int i = 0; i < 3; ++i) {
    server->process().Signal(SIGTERM);
    server->process().ExpectLog("shutdown_in_progress complete_by=2");
  }
  EXPECT_FALSE(server->process().Wait(absl::ZeroDuration()).has_value())
      << "the streams were over too soon: nothing was tested";
  for (const Samples& samples : streams.Finish()) EXPECT_EQ(Difference(samples, expected), "");
  EXPECT_EQ(server->process().ExitCode(), 0);
  const std::vector<std::string> parts =
      absl::StrSplit(server->process().log(), "shutdown_in_progress");
  EXPECT_EQ(parts.size(), 2);
}

TEST(DrainTest, ASecondInterruptCutsShort) {
  const auto server = SharedServer::Start({"--drain_timeout=10m"});
  ASSERT_NE(server, nullptr);
  OpenStreams streams(server->address(), SharedServer::LongSession());
  server->process().Signal(SIGINT);
  server->process().ExpectLog("draining live_calls=");
  absl::SleepFor(absl::Milliseconds(50));  // until it is not the same press
  server->process().Signal(SIGINT);
  const std::vector<Samples> results = streams.Finish();
  EXPECT_EQ(server->process().ExitCode(), 0);
  ExpectCutShort(results, server->process());
}

TEST(DrainTest, AReaderThatStallsForEverDoesNotKeepTheServer) {
  const auto server = SharedServer::Start({"--drain_timeout=500ms"});
  ASSERT_NE(server, nullptr);
  const ApiClient slow_client(server->address(), ReceiveWindow::kSmall);
  SampleStream slow(slow_client.stub(), SharedServer::LongSession());
  ASSERT_TRUE(slow.ReadOne());
  absl::SleepFor(absl::Milliseconds(500));
  server->process().Signal(SIGTERM);
  EXPECT_EQ(server->process().ExitCode(), 0);
}

// A client may repeat an UNAVAILABLE call elsewhere, but not a CANCELLED one.
TEST(DrainTest, CallsThatArriveAsTheDrainEndsAreUnavailable) {
  constexpr int kClients = 8;
  const auto server = SharedServer::Start();
  ASSERT_NE(server, nullptr);
  const v1::PredictRequest request = MakePredict("data", RandomRows(2, 3, 1));
  std::atomic<int> calls{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      const ApiClient client(server->address());
      // Until no server is there any more.
      for (int refused = 0; refused < 200;) {
        const grpc::Status status = client.Predict(request).status;
        ++calls;
        if (status.ok()) continue;
        ++refused;
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return calls > 100 * kClients; }));
  server->process().Signal(SIGTERM);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server->process().ExitCode(), 0);
}

// The same with callers that connect anew for each call, over some servers:
// CHORALE_TEST_DRAINS says how many.
TEST(DrainTest, NoCallIsCancelledInAnyDrain) {
  constexpr int kPatientCallers = 6;  // keep their connection
  constexpr int kCallers = 30;
  int drains = 5;
  if (const char* const asked = std::getenv("CHORALE_TEST_DRAINS")) drains = std::stoi(asked);
  const v1::PredictRequest request = MakePredict("data", RandomRows(2, 3, 1));
  std::map<grpc::StatusCode, int> outcomes;
  std::mutex mutex;
  for (int drain = 0; drain < drains; ++drain) {
    const auto server = ServerProcess::Start(
        {.models = {GoldenFolder("golden_tiny")}, .flags = {"--drain_timeout=10m", "--threads=1"}});
    ASSERT_NE(server, nullptr);
    ASSERT_TRUE(ApiClient(server->address()).Register("data", RandomRows(20, 3, 1)).ok());
    std::atomic<int> calls{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kCallers; ++i) {
      threads.emplace_back([&, patient = i < kPatientCallers] {
        auto client = std::make_unique<ApiClient>(server->address());
        for (int refused = 0; refused < 30;) {
          if (!patient) client = std::make_unique<ApiClient>(server->address());
          const grpc::Status status = client->Predict(request).status;
          ++calls;
          const std::lock_guard<std::mutex> lock(mutex);
          ++outcomes[status.error_code()];
          if (status.ok()) continue;
          ++refused;
          EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE)
              << status.error_message() << " in drain " << drain;
        }
      });
    }
    SampleStream stream(ApiClient(server->address()).stub(), MediumSession());
    EXPECT_TRUE(stream.ReadOne());
    EXPECT_TRUE(Eventually([&] { return calls > 10 * kCallers; }));
    server->Signal(SIGTERM);
    const Samples samples = stream.Finish();
    EXPECT_TRUE(samples.complete()) << samples.status.error_code() << " "
                                    << samples.status.error_message() << " " << samples.problem;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(server->ExitCode(), 0);
  }
  for (const auto& [code, count] : outcomes) {
    std::cout << "  " << count << " calls with status code " << code << "\n";
  }
}

TEST(DrainTest, ALameDuckIsNotReadyButServes) {
  const auto server = SharedServer::Start({"--lame_duck=10m"});
  ASSERT_NE(server, nullptr);
  server->process().Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return Health(server->address()) == "NOT_SERVING"; }));
  server->ExpectUndisturbed();
  EXPECT_FALSE(server->process().Wait(absl::ZeroDuration()).has_value());
  // SIGINT ends it, and not another SIGTERM.
  server->process().Signal(SIGTERM);
  server->ExpectUndisturbed();
  server->process().Signal(SIGINT);
  EXPECT_EQ(server->process().ExitCode(), 0);
}

TEST(DrainTest, SigintEndsAServerWithoutATimeAsALameDuck) {
  const auto server =
      ServerProcess::Start({.models = {GoldenFolder("golden_tiny")}, .flags = {"--lame_duck=10m"}});
  ASSERT_NE(server, nullptr);
  server->Signal(SIGINT);
  EXPECT_EQ(server->ExitCode(), 0);
}

TEST(DrainTest, AnOldConnectionTakesNoMoreCallsButItsStreamsGoOn) {
  const auto server = SharedServer::Start({"--max_connection_age=200ms"});
  ASSERT_NE(server, nullptr);
  const ApiClient client(server->address());
  const absl::Time begin = absl::Now();
  SampleStream stream(client.stub(), SharedServer::LongSession());
  ASSERT_TRUE(stream.ReadOne());
  EXPECT_TRUE(stream.Finish().status.ok());
  EXPECT_GT(absl::Now() - begin, absl::Milliseconds(400))
      << "it was over too soon: nothing was tested";
  // gRPC has connected anew.
  EXPECT_TRUE(client.Predict(MakePredict("data", RandomRows(2, 3, 1))).ok());
  server->Terminate();
}

TEST(DrainTest, AnIdleServerEndsAtOnce) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto server = ServerProcess::Start(
        {.models = {GoldenFolder("golden_tiny")}, .flags = {"--drain_timeout=10m"}});
    ASSERT_NE(server, nullptr);
    server->Signal(signal);
    EXPECT_EQ(server->ExitCode(), 0);
  }
}

TEST(DrainTest, AHealthWatchDoesNotKeepTheServer) {
  const auto server = ServerProcess::Start(
      {.models = {GoldenFolder("golden_tiny")}, .flags = {"--drain_timeout=10m"}});
  ASSERT_NE(server, nullptr);
  grpc::GenericStub stub(
      grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  const grpc::Slice empty;
  grpc::ByteBuffer message(&empty, 1);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(wait());
  call->WriteLast(message, grpc::WriteOptions(), nullptr);
  ASSERT_TRUE(wait());
  call->Read(&message, nullptr);
  ASSERT_TRUE(wait());  // SERVING
  server->Signal(SIGTERM);
  call->Read(&message, nullptr);
  wait();  // NOT_SERVING, or the end of the stream: the server has nothing else to wait for
  EXPECT_EQ(server->ExitCode(), 0);
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
}

}  // namespace
}  // namespace chorale::end_to_end
