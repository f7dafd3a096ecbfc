// A server with a fake engine, and a client over a real socket.
#ifndef CHORALE_TESTS_SERVER_SERVER_FIXTURE_H_
#define CHORALE_TESTS_SERVER_SERVER_FIXTURE_H_

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "chorale/v1/chorale.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "server/server.h"
#include "tests/server/fake_engine.h"
#include "tests/server/tables.h"
#include "tests/support/error_reasons.h"
#include "tests/support/eventually.h"
#include "tests/support/skippable_clock.h"

namespace chorale {

// The field of the error's BadRequest; empty if there is none.
inline std::string FieldOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::BadRequest bad_request;
  details.ParseFromString(status.error_details());
  for (const auto& detail : details.details()) {
    if (detail.UnpackTo(&bad_request)) return bad_request.field_violations(0).field();
  }
  return "";
}

class ServerFixture : public ::testing::Test {
 protected:
  ServerFixture() {
    // Ever after: gRPC's own end, when a test has dropped the last of its objects, may wait for ten
    // seconds for a thread that sleeps. (That thread helps with messages which do not fit into the
    // socket's buffer; its alarm clock is for the case that one end of the connection goes on.)
    static const bool initialised = (grpc_init(), true);
    (void)initialised;
    options_.clock = &clock_;
    engine_->clock = &clock_;
    options_.listen_address = "127.0.0.1:0";
    options_.metrics_address = "";  // most tests need no endpoint
  }

  ~ServerFixture() override {
    // Ends the calls that a test left in flight, and their reactors.
    server_.reset();
  }

  void StartServer() {
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = NewChannel();
    stub_ = v1::Chorale::NewStub(channel_);
  }

  void OpenServer() {
    const absl::Status status = server_->Open(
        [this](PrometheusMetrics*) -> absl::StatusOr<std::unique_ptr<Engine>> {
          return std::move(owned_engine_);
        },
        [this] { backend_failed_ = true; });
    ASSERT_TRUE(status.ok()) << status;
  }

  // Returns a new connection. A test fails if an error lacks a reason.
  std::shared_ptr<grpc::Channel> NewChannel(int max_receive_bytes = 64 << 20) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(max_receive_bytes);
    return grpc::experimental::CreateCustomChannelWithInterceptors(
        absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials(), arguments,
        CheckReasons(UndocumentedReasons::kNamesOfCodes));
  }

  // Lets time pass until the condition holds; `step` is less than any limit that must not pass.
  // Clients' deadlines pass only on the server.
  template <typename Condition>
  [[nodiscard]] bool SkipUntil(absl::Duration step, const Condition& condition) {
    return Eventually([&] {
      if (condition()) return true;
      clock_.Skip(step);
      return false;
    });
  }

  // A context for one call, with a deadline of half a minute.
  static std::unique_ptr<grpc::ClientContext> NewContext(
      absl::Duration timeout = absl::Seconds(30)) {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    return context;
  }

  static v1::SampleRequest SampleMessage(int64_t paths = 4) {
    v1::SampleRequest request;
    request.set_context("contexts/houses");
    *request.mutable_rows() = SmallTable();
    request.set_path_count(paths);
    request.set_seed(17);
    return request;
  }

  static v1::PredictRequest PredictMessage() {
    v1::PredictRequest request;
    request.set_context("contexts/houses");
    *request.mutable_rows() = SmallTable();
    return request;
  }

  SkippableClock clock_;                     // of the server
  std::atomic<bool> backend_failed_{false};  // as reported by the server
  ServerOptions options_;
  std::unique_ptr<FakeEngine> owned_engine_ = std::make_unique<FakeEngine>();
  FakeEngine* const engine_ = owned_engine_.get();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Chorale::Stub> stub_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_SERVER_SERVER_FIXTURE_H_
