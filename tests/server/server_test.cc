#include "server/server.h"

#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/check_server.h"
#include "tests/server/server_fixture.h"
#include "tests/support/eventually.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ServerTest : public ServerFixture {
 protected:
  struct Reply {
    grpc::Status status;
    std::string bytes;
  };

  // A unary call of a method without generated code.
  static Reply RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                       const std::string& message) {
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    auto context = NewContext();
    const grpc::Slice slice(message);
    const auto call = stub.PrepareCall(context.get(), method, &queue);
    void* tag;
    bool ok;
    Reply reply;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    queue.Next(&tag, &ok);
    grpc::ByteBuffer response;
    call->Read(&response, nullptr);
    queue.Next(&tag, &ok);
    if (ok) {
      grpc::Slice whole;
      response.DumpToSingleSlice(&whole);
      reply.bytes.assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
    }
    call->Finish(&reply.status, nullptr);
    queue.Next(&tag, &ok);
    return reply;
  }

  // The health of a service: "SERVING", "NOT_SERVING", or the error's code.
  std::string Health(const std::string& service) {
    std::string message;
    if (!service.empty())
      message = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
    const Reply reply = RawCall(channel_, "/grpc.health.v1.Health/Check", message);
    if (!reply.status.ok()) return absl::StrCat(reply.status.error_code());
    if (reply.bytes == std::string("\x08\x01")) return "SERVING";
    if (reply.bytes == std::string("\x08\x02")) return "NOT_SERVING";
    return "unexpected " + reply.bytes;
  }

  Reply Reflection(const std::string& package) {
    return RawCall(channel_, absl::StrCat("/", package, ".ServerReflection/ServerReflectionInfo"),
                   std::string("\x3a\x01*"));  // list_services: "*"
  }
};

TEST_F(ServerTest, HealthFollowsTheLifeOfTheServer) {
  const auto readiness = [this] {
    const std::string all = Health("");
    EXPECT_EQ(Health("chorale.v1.Chorale"), all);
    EXPECT_EQ(Health("readiness"), all);
    EXPECT_EQ(server_->ready() ? "SERVING" : "NOT_SERVING", all);
    return all;
  };
  StartServer();
  EXPECT_EQ(readiness(), "NOT_SERVING");
  EXPECT_EQ(Health("liveness"), "SERVING");
  EXPECT_EQ(Health("another"), absl::StrCat(grpc::StatusCode::NOT_FOUND));
  OpenServer();
  EXPECT_EQ(readiness(), "SERVING");
  EXPECT_EQ(Health("liveness"), "SERVING");
  // A lame duck serves.
  server_->AnnounceShutdown();
  EXPECT_EQ(readiness(), "NOT_SERVING");
  auto context = NewContext();
  auto reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  // A call in flight keeps the drain waiting, with the port still open.
  std::thread drain([&] { server_->Drain(clock_.Now() + kPatience); });
  v1::PredictResponse refused;
  EXPECT_TRUE(Eventually([&] {
    return stub_->Predict(NewContext(absl::Milliseconds(200)).get(), PredictMessage(), &refused)
               .error_code() == grpc::StatusCode::UNAVAILABLE;
  }));
  EXPECT_EQ(readiness(), "NOT_SERVING");
  EXPECT_EQ(Health("liveness"), "SERVING");
  sample->call->End(absl::OkStatus());
  drain.join();
}

// A signal may come while the models load.
TEST_F(ServerTest, AShutdownThatIsAnnouncedEarlyIsNotForgotten) {
  StartServer();
  server_->AnnounceShutdown();
  OpenServer();
  EXPECT_EQ(Health("readiness"), "NOT_SERVING");
}

TEST_F(ServerTest, AFactoryThatFailsLeavesTheServerRefusing) {
  StartServer();
  const absl::Status status = server_->Open(
      [](PrometheusMetrics*) { return absl::DataLossError("contexts.db is malformed"); }, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Health(""), "NOT_SERVING");
  v1::PredictResponse response;
  EXPECT_EQ(stub_->Predict(NewContext().get(), PredictMessage(), &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerTest, AServerWhoseStoreIsLostIsNotReadyButLives) {
  options_.health_period = absl::Milliseconds(10);
  StartServer();
  OpenServer();
  engine_->store_lost = true;
  EXPECT_TRUE(Eventually([&] { return Health("") == "NOT_SERVING"; }));
  EXPECT_EQ(Health("chorale.v1.Chorale"), "NOT_SERVING");
  EXPECT_EQ(Health("readiness"), "NOT_SERVING");
  EXPECT_EQ(Health("liveness"), "SERVING");
  EXPECT_TRUE(server_->live());
  EXPECT_FALSE(backend_failed_);
  engine_->store_lost = false;
  EXPECT_TRUE(Eventually([&] { return Health("") == "SERVING"; }));
}

TEST_F(ServerTest, ABackendThatFailsTakesTheServerToNotServing) {
  options_.health_period = absl::Milliseconds(10);
  StartServer();
  OpenServer();
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(Health(""), "SERVING");
  EXPECT_FALSE(server_->failed());
  engine_->Fail();
  EXPECT_TRUE(Eventually([&] { return backend_failed_.load(); }));
  EXPECT_TRUE(server_->failed());
  EXPECT_EQ(Health(""), "NOT_SERVING");
  EXPECT_EQ(Health("chorale.v1.Chorale"), "NOT_SERVING");
  EXPECT_EQ(Health("readiness"), "NOT_SERVING");
  EXPECT_EQ(Health("liveness"), "NOT_SERVING");
  EXPECT_FALSE(server_->live());
}

TEST_F(ServerTest, ReflectionListsTheService) {
  StartServer();
  for (const char* package : {"grpc.reflection.v1", "grpc.reflection.v1alpha"}) {
    const Reply reply = Reflection(package);
    EXPECT_TRUE(reply.status.ok()) << package << ": " << reply.status.error_message();
    EXPECT_THAT(reply.bytes, HasSubstr("chorale.v1.Chorale")) << package;
  }
}

TEST_F(ServerTest, ReflectionRefusesWhatIsNoRequest) {
  StartServer();
  const char* const method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  EXPECT_EQ(ReasonOf(RawCall(channel_, method, "\xff\xff").status), "INVALID_REQUEST");
  EXPECT_EQ(ReasonOf(RawCall(channel_, method, std::string(20'000, 'x')).status),
            "MESSAGE_TOO_LARGE");
}

TEST_F(ServerTest, ReflectionCanBeSwitchedOff) {
  options_.reflection = false;
  StartServer();
  for (const char* package : {"grpc.reflection.v1", "grpc.reflection.v1alpha"}) {
    const Reply reply = Reflection(package);
    EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(reply.bytes, "");
  }
  EXPECT_EQ(Health(""), "NOT_SERVING");  // the server works otherwise
}

TEST_F(ServerTest, TwoServersCannotShareAPort) {
  options_.metrics_address = "127.0.0.1:0";
  StartServer();
  ServerOptions second = options_;
  second.listen_address = absl::StrCat("127.0.0.1:", server_->port());
  const absl::Status status = Server::Start(second).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(second.listen_address));

  ServerOptions third = options_;
  third.metrics_address = absl::StrCat("127.0.0.1:", server_->metrics_port());
  const absl::Status metrics = Server::Start(third).status();
  EXPECT_EQ(metrics.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(metrics.message()), HasSubstr(third.metrics_address));
}

TEST_F(ServerTest, MalformedAddressesAreNamed) {
  for (const char* address :
       {"nonsense", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:", "256.0.0.1:0"}) {
    ServerOptions options = options_;
    options.listen_address = address;
    const absl::Status status = Server::Start(options).status();
    EXPECT_FALSE(status.ok()) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr(address));
  }
  ServerOptions options = options_;
  options.metrics_address = "nonsense:x";
  EXPECT_FALSE(Server::Start(options).ok());
}

// Without a host the endpoint would listen on all interfaces.
TEST_F(ServerTest, MetricsNeedAHostAndAPort) {
  for (const char* address : {"9464", ":9464", "127.0.0.1", "9464,127.0.0.1:9465"}) {
    ServerOptions options = options_;
    options.metrics_address = address;
    const absl::Status status = Server::Start(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(absl::StrCat("cannot listen on ", address, ": the address must be HOST:PORT")));
  }
}

TEST_F(ServerTest, ThePortFileHoldsThePortOnceCallsAreAdmitted) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / absl::StrCat("chorale-port-", getpid());
  std::ofstream(path) << "an earlier server's\n";
  const std::filesystem::path planted = absl::StrCat(path.string(), ".tmp");
  const std::filesystem::path victim = absl::StrCat(path.string(), ".victim");
  std::ofstream(victim) << "of value";
  std::filesystem::create_symlink(victim, planted);
  options_.port_file = path;
  StartServer();
  EXPECT_FALSE(std::filesystem::exists(path));
  OpenServer();
  int port = 0;
  std::ifstream(path) >> port;
  EXPECT_EQ(port, server_->port());
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(std::filesystem::file_size(victim), 8u) << "the link was followed";
  std::filesystem::remove(path);
  std::filesystem::remove(victim);
  server_.reset();
  options_.port_file = "/nowhere/port";
  EXPECT_THAT(std::string(Server::Start(options_).status().message()), HasSubstr("/nowhere/port"));
}

TEST_F(ServerTest, CheckAsksWhetherTheServerIsReady) {
  StartServer();
  const std::string address = absl::StrCat("127.0.0.1:", server_->port());
  const auto check = [](const std::string& to) {
    return std::string(CheckServer({to}, kPatience).message());
  };
  EXPECT_EQ(check(address),
            absl::StrCat(address, " is not ready: the server is starting or draining"));
  OpenServer();
  EXPECT_EQ(check(address), "");
  // An address to listen on is not always one to call.
  for (const char* all : {"0.0.0.0:", "[::]:"}) {
    EXPECT_EQ(check(absl::StrCat(all, server_->port())), "");
  }
  EXPECT_THAT(check("127.0.0.1:0"), HasSubstr("cannot check 127.0.0.1:0"));
  server_->AnnounceShutdown();
  EXPECT_THAT(check(address), HasSubstr("is not ready"));
  server_.reset();
  EXPECT_THAT(check(address), HasSubstr(absl::StrCat("no answer from ", address)));
}

TEST_F(ServerTest, CompressedRequestsAreRefused) {
  StartServer();
  OpenServer();
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    auto context = NewContext();
    context->set_compression_algorithm(algorithm);
    // Compressible, so that the client library does compress it.
    v1::PredictRequest request = PredictMessage();
    for (int i = 0; i < 4000; ++i) request.add_quantiles(0.5);
    v1::PredictResponse response;
    const grpc::Status status = stub_->Predict(context.get(), request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  }
}

TEST_F(ServerTest, AMessageOverTheLimitIsRefusedAndTheNextCallIsFine) {
  StartServer();
  engine_->on_predict = [](const PredictRequest&) { return PredictResult(); };
  OpenServer();
  v1::PredictRequest request = PredictMessage();
  request.mutable_rows()->mutable_columns(0)->mutable_numeric()->mutable_values()->Resize(600'000,
                                                                                          1.0);
  v1::PredictResponse response;
  const grpc::Status status = stub_->Predict(NewContext().get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "MESSAGE_TOO_LARGE");
  EXPECT_THAT(status.error_message(), HasSubstr("the limit is 4194304"));
  EXPECT_TRUE(stub_->Predict(NewContext().get(), PredictMessage(), &response).ok());
}

TEST_F(ServerTest, UnknownMethodsAreNamed) {
  StartServer();
  OpenServer();
  for (const char* method : {"/chorale.v1.Chorale/Forecast", "/other.Service/Call"}) {
    const grpc::Status status = RawCall(channel_, method, "request").status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(ReasonOf(status), "UNKNOWN_METHOD");
    EXPECT_THAT(status.error_message(), HasSubstr(method));
  }
  EXPECT_EQ(Health(""), "SERVING") << "of another service";
}

// Of the same connection; a server that listens on IPv6 as well sees another address of an IPv4
// client than gRPC names.
TEST_F(ServerTest, WhatCallsSendIsNotTakenForAFlood) {
  options_.max_message_bytes = 1 << 20;
  for (const char* listen : {"127.0.0.1:0", "[::]:0"}) {
    options_.listen_address = listen;
    std::atomic<int> looks = 0;  // at the traffic
    options_.find_memory_shares = [&looks](bool, int64_t) -> std::optional<MemoryShares> {
      ++looks;
      return std::nullopt;
    };
    StartServer();
    OpenServer();
    v1::PredictRequest request;
    request.set_context(std::string(1'000'000, 'x'));
    v1::PredictResponse response;
    int64_t sent = 0;
    while (looks < 3 || sent < 5 * 16 * options_.max_message_bytes) {
      const grpc::Status status = stub_->Predict(NewContext().get(), request, &response);
      ASSERT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
      ASSERT_NE(status.error_message(), "") << listen;
      ASSERT_EQ(status.error_message().find("Socket closed"), std::string::npos) << listen;
      sent += static_cast<int64_t>(request.ByteSizeLong());
      clock_.Skip(absl::Milliseconds(100));
    }
    server_.reset();
    owned_engine_ = std::make_unique<FakeEngine>();  // of the next server
  }
}

}  // namespace
}  // namespace chorale
