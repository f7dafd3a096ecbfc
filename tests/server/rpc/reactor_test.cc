#include "server/rpc/reactor.h"

#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"

namespace chorale {
namespace {

// A call of any method whose messages are any bytes.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, Method method,
          std::unique_ptr<grpc::ClientContext> context)
      : stub_(channel), context_(std::move(context)) {
    call_ = stub_.PrepareCall(context_.get(),
                              absl::StrCat("/chorale.v1.Chorale/", MethodName(method)), &queue_);
    call_->StartCall(nullptr);
    (void)Next();
  }

  // Returns false if the call has ended.
  bool Send(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    call_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    return Next();
  }
  void HalfClose() {
    call_->WritesDone(nullptr);
    (void)Next();
  }
  // Reads what the server sends until the call ends; returns how it ended.
  grpc::Status End() {
    grpc::ByteBuffer bytes;
    do {
      call_->Read(&bytes, nullptr);
    } while (Next());
    grpc::Status status;
    call_->Finish(&status, nullptr);
    (void)Next();
    return status;
  }
  void Cancel() { context_->TryCancel(); }

 private:
  bool Next() {
    void* tag;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return ok;
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

constexpr Method kAllMethods[] = {
    Method::kRegisterContext, Method::kCreateContext, Method::kAppendRows,  Method::kGetContext,
    Method::kListContexts,    Method::kDeleteContext, Method::kWarmContext, Method::kPredict,
    Method::kSample,          Method::kSummarize,     Method::kLogDensity,  Method::kGetModel,
    Method::kListModels,      Method::kGetServerInfo};

class ReactorTest : public ServerFixture {
 protected:
  void Serve() {
    engine_->on_register = [this](const auto&, const auto&) -> absl::StatusOr<RegisterOutcome> {
      ++registered_;
      return RegisterOutcome();
    };
    StartServer();
    OpenServer();
  }
  RawCall Begin(Method method) { return {channel_, method, NewContext()}; }

  std::atomic<int> registered_{0};
};

TEST_F(ReactorTest, BytesThatDoNotParseAreAnInvalidArgumentOfEveryMethod) {
  Serve();
  for (const Method method : kAllMethods) {
    for (const std::string bytes : {"\xff", "\x0a\x05xyz", "\x0c"}) {
      RawCall call = Begin(method);
      (void)call.Send(bytes);
      const grpc::Status status = call.End();
      EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << MethodName(method);
      EXPECT_NE(status.error_message().find("chorale.v1."), std::string::npos)
          << status.error_message();
    }
  }
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
}

TEST_F(ReactorTest, ACallWithoutARequestIsAnInvalidArgumentOfEveryMethod) {
  Serve();
  for (const Method method : kAllMethods) {
    RawCall call = Begin(method);
    call.HalfClose();
    EXPECT_EQ(call.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << MethodName(method);
  }
}

// A chunk that does not parse is not the end of the upload, whether or not the spec says how many
// rows there are.
TEST_F(ReactorTest, ADamagedChunkRegistersNothing) {
  Serve();
  v1::RegisterContextRequest spec;
  spec.mutable_spec()->set_context_id("houses");
  spec.mutable_spec()->set_target_column("price");
  v1::RegisterContextRequest rows;
  AddNumeric(rows.mutable_rows(), "price", {1, 2, 3});
  AddCategorical(rows.mutable_rows(), "color", {"red", "blue"}, {0, 1, 0});
  std::string damaged = rows.SerializeAsString();
  damaged[damaged.find("blue")] = '\xff';
  for (const std::string& bad : {damaged, rows.SerializeAsString().substr(0, 20)}) {
    for (int before = 0; before < 3; ++before) {
      RawCall call = Begin(Method::kRegisterContext);
      EXPECT_TRUE(call.Send(spec.SerializeAsString()));
      for (int i = 0; i < before; ++i) EXPECT_TRUE(call.Send(rows.SerializeAsString()));
      (void)call.Send(bad);
      call.HalfClose();
      EXPECT_EQ(call.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    }
  }
  EXPECT_EQ(registered_, 0);
}

// Without a limit its memory would be the client's to keep.
TEST_F(ReactorTest, TheWatchdogEndsCallsOfEveryMethodWhoseRequestDoesNotCome) {
  options_.stalled_write_timeout = absl::Hours(1);
  Serve();
  std::vector<std::unique_ptr<RawCall>> calls;
  for (const Method method : kAllMethods) {
    calls.push_back(std::make_unique<RawCall>(channel_, method, NewContext(absl::Hours(24))));
  }
  EXPECT_TRUE(
      Eventually([&] { return server_->live_calls() == static_cast<int64_t>(calls.size()); }));
  EXPECT_TRUE(SkipUntil(absl::Minutes(15), [&] { return server_->live_calls() == 0; }));
  for (const auto& call : calls) {
    EXPECT_EQ(call->End().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST_F(ReactorTest, AClientThatDisconnectsBeforeItsRequestLeavesNothing) {
  Serve();
  for (const Method method : kAllMethods) {
    RawCall call = Begin(method);
    EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 1; }));
    call.Cancel();
    EXPECT_EQ(call.End().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
  }
}

// The bytes of such requests would otherwise pile up behind those that are being decoded.
TEST_F(ReactorTest, ALargeRequestThatIsCancelledDoesNotWaitForItsTurn) {
  std::atomic<bool> decoding{false};
  std::atomic<bool> go_on{false};
  engine_->on_predict = [&](const PredictRequest&) -> absl::StatusOr<PredictResult> {
    decoding = true;
    EXPECT_TRUE(Eventually([&] { return go_on.load(); }));
    return absl::NotFoundError("nothing");
  };
  Serve();
  v1::PredictRequest request;
  request.set_context("contexts/houses");
  for (const char* name : {"area", "rooms", "year"}) {
    AddNumeric(request.mutable_rows(), name, std::vector<double>(4000, 1.0));
  }
  const std::string bytes = request.SerializeAsString();
  ASSERT_GE(bytes.size(), 64 << 10);
  RawCall first = Begin(Method::kPredict);
  EXPECT_TRUE(first.Send(bytes));
  EXPECT_TRUE(Eventually([&] { return decoding.load(); }));
  for (const Method method : {Method::kPredict, Method::kSample, Method::kRegisterContext,
                              Method::kCreateContext, Method::kAppendRows}) {
    RawCall waiting = Begin(method);
    EXPECT_TRUE(waiting.Send(bytes));
    EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 2; }));
    waiting.Cancel();
    EXPECT_EQ(waiting.End().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 1; })) << MethodName(method);
  }
  go_on = true;
  EXPECT_EQ(first.End().error_code(), grpc::StatusCode::NOT_FOUND);
}

// gRPC ends calls with much larger messages itself.
TEST_F(ReactorTest, AMessageFarOverTheLimitIsRefused) {
  options_.max_message_bytes = 100'000;
  Serve();
  RawCall call = Begin(Method::kPredict);
  (void)call.Send(std::string(450'000, 'x'));
  EXPECT_EQ(call.End().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ReactorTest, AMessageOverTheLimitIsRefusedWithTheLimit) {
  options_.max_message_bytes = 100'000;
  Serve();
  for (const Method method : {Method::kPredict, Method::kRegisterContext, Method::kSample}) {
    RawCall call = Begin(method);
    (void)call.Send(std::string(100'001, 'x'));
    const grpc::Status status = call.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << MethodName(method);
    EXPECT_NE(status.error_message().find("100000"), std::string::npos) << status.error_message();
    EXPECT_EQ(ReasonOf(status), "MESSAGE_TOO_LARGE");
    const grpc::Status just_fits = [&] {
      RawCall next = Begin(method);
      (void)next.Send(std::string(100'000, '\xff'));  // no message
      return next.End();
    }();
    EXPECT_EQ(just_fits.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << just_fits.error_message();
  }
}

}  // namespace
}  // namespace chorale
