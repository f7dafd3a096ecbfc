#include "server/rpc/unary_reactor.h"

#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <thread>
#include <utility>

#include "tests/server/server_fixture.h"

namespace chorale {
namespace {

// A Predict whose client neither reads the response nor disconnects.
class UnreadCall {
 public:
  UnreadCall(const std::shared_ptr<grpc::Channel>& channel, const v1::PredictRequest& request,
             std::unique_ptr<grpc::ClientContext> context)
      : stub_(channel), context_(std::move(context)) {
    call_ = stub_.PrepareCall(context_.get(), "/chorale.v1.Chorale/Predict", &queue_);
    call_->StartCall(nullptr);
    Next();
    const grpc::Slice slice(request.SerializeAsString());
    call_->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    Next();
    call_->ReadInitialMetadata(nullptr);  // from here on the response is being sent
    Next();
  }
  ~UnreadCall() { End(); }

  // Ends the call unless it has ended; returns its status.
  grpc::StatusCode End() {
    if (call_ != nullptr) {
      context_->TryCancel();
      call_->Finish(&status_, nullptr);
      Next();
      call_.reset();
    }
    return status_.error_code();
  }

 private:
  void Next() {
    void* tag;
    bool ok;
    queue_.Next(&tag, &ok);
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::Status status_;
};

class UnreadAnswerTest : public ServerFixture {
 protected:
  void Serve() {
    engine_->on_predict = [](const PredictRequest&) {
      PredictResult result;
      result.mean.assign(200'000, 1.0);
      return result;
    };
    StartServer();
    OpenServer();
  }

  // A connection with a flow-control window of 64 KiB per call. By default this library would
  // accept a whole response; many others would not.
  std::shared_ptr<grpc::Channel> Narrow() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                     grpc::InsecureChannelCredentials(), arguments);
  }
};

// Otherwise the response would stay in memory as long as the client wants.
TEST_F(UnreadAnswerTest, TheWatchdogGivesUpAnAnswerThatNobodyReads) {
  options_.stalled_write_timeout = absl::Hours(1);
  Serve();
  UnreadCall call(Narrow(), PredictMessage(), NewContext(absl::Hours(24)));
  EXPECT_EQ(server_->live_calls(), 1);
  EXPECT_TRUE(SkipUntil(absl::Minutes(15), [&] { return server_->live_calls() == 0; }));
  EXPECT_EQ(call.End(), grpc::StatusCode::CANCELLED);
  // A client that reads gets the same response.
  v1::PredictResponse response;
  EXPECT_TRUE(stub_->Predict(NewContext().get(), PredictMessage(), &response).ok());
}

// Replies of 1.6 MB: two of them are less than half of what there is, three are more.
TEST_F(UnreadAnswerTest, AClientMayLeaveOnlySoManyUnread) {
  options_.reply_memory_bytes = 8 << 20;
  Serve();
  const std::shared_ptr<grpc::Channel> narrow = Narrow();
  UnreadCall first(narrow, PredictMessage(), NewContext());
  UnreadCall second(narrow, PredictMessage(), NewContext());
  v1::PredictResponse response;
  const grpc::Status refused = stub_->Predict(NewContext().get(), PredictMessage(), &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(), "the client has too many unread responses");
  first.End();
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 1; }));
  EXPECT_TRUE(stub_->Predict(NewContext().get(), PredictMessage(), &response).ok());
}

TEST_F(UnreadAnswerTest, ItHoldsUpADrainUntilTheDeadline) {
  options_.stalled_write_timeout = absl::Hours(24);
  Serve();
  UnreadCall call(Narrow(), PredictMessage(), NewContext(absl::Hours(24)));
  EXPECT_EQ(server_->live_calls(), 1);
  const absl::Time deadline = clock_.Now() + absl::Hours(1);
  std::thread drain([&] { server_->Drain(deadline); });
  EXPECT_TRUE(SkipUntil(absl::Minutes(15), [&] { return server_->live_calls() == 0; }));
  EXPECT_GE(clock_.Now(), deadline);
  drain.join();
}

TEST_F(UnreadAnswerTest, AShutdownThatIsCutShortEndsIt) {
  Serve();
  UnreadCall call(Narrow(), PredictMessage(), NewContext());
  EXPECT_EQ(server_->live_calls(), 1);
  std::thread cut([&] { server_->CutShort(); });
  EXPECT_TRUE(SkipUntil(absl::Seconds(1), [&] { return server_->live_calls() == 0; }));
  cut.join();
}

}  // namespace
}  // namespace chorale
