#include "server/rpc/register_reactor.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"
#include "tests/support/http_get.h"

namespace chorale {
namespace {

class RegisterReactorTest : public ServerFixture {
 protected:
  void SetUp() override {
    engine_->on_register = [this](const RegisterRequest& request,
                                  const Dataset& dataset) -> absl::StatusOr<RegisterOutcome> {
      ++registered_;
      RegisterOutcome outcome;
      outcome.context.record.name = request.context;
      outcome.context.record.model = request.model.empty() ? "standard" : request.model;
      outcome.context.record.rows = static_cast<int64_t>(dataset.y.size());
      outcome.context.record.created = absl::UnixEpoch();
      outcome.outcome = outcome_;
      if (request.validate_only) outcome.estimate = Estimate{12345, absl::Milliseconds(1500)};
      return outcome;
    };
    StartServer();
    OpenServer();
  }

  static v1::RegisterContextRequest Spec() {
    v1::RegisterContextRequest message;
    message.mutable_spec()->set_context_id("houses");
    message.mutable_spec()->set_target_column("price");
    return message;
  }

  static v1::RegisterContextRequest Rows(int64_t rows) {
    v1::RegisterContextRequest message;
    AddNumeric(message.mutable_rows(), "price", std::vector<double>(rows, 1));
    AddNumeric(message.mutable_rows(), "age", std::vector<double>(rows, 2));
    return message;
  }

  // Sends the messages and returns how the call ended.
  grpc::Status Send(const std::vector<v1::RegisterContextRequest>& messages,
                    v1::RegisterContextResponse* response) {
    auto context = NewContext();
    auto writer = stub_->RegisterContext(context.get(), response);
    for (const auto& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  // The same by CreateContext.
  grpc::Status Create(const v1::RegisterContextRequest& spec,
                      const v1::RegisterContextRequest& rows,
                      v1::RegisterContextResponse* response) {
    v1::CreateContextRequest request;
    if (spec.has_spec()) *request.mutable_spec() = spec.spec();
    if (rows.has_rows()) *request.mutable_rows() = rows.rows();
    auto context = NewContext();
    return stub_->CreateContext(context.get(), request, response);
  }

  std::atomic<int> registered_{0};
  PutOutcome outcome_ = PutOutcome::kCreated;
};

TEST_F(RegisterReactorTest, ChunksAreRegisteredAsOne) {
  v1::RegisterContextResponse response;
  const grpc::Status status = Send({Spec(), Rows(2), Rows(1), Rows(4)}, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.context().name(), "contexts/houses");
  EXPECT_EQ(response.context().model(), "models/standard");
  EXPECT_EQ(response.context().row_count(), 7);
  EXPECT_FALSE(response.already_registered());
  EXPECT_EQ(registered_, 1);
}

TEST_F(RegisterReactorTest, ATableInASingleMessageIsRegisteredInTheSameWay) {
  v1::RegisterContextResponse response;
  const grpc::Status status = Create(Spec(), Rows(7), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.context().name(), "contexts/houses");
  EXPECT_EQ(response.context().row_count(), 7);
  EXPECT_FALSE(response.already_registered());
  outcome_ = PutOutcome::kUnchanged;
  ASSERT_TRUE(Create(Spec(), Rows(7), &response).ok());
  EXPECT_TRUE(response.already_registered());
  EXPECT_EQ(registered_, 2);

  v1::RegisterContextRequest no_target = Rows(1);
  no_target.mutable_rows()->mutable_columns(0)->set_name("rent");
  EXPECT_EQ(FieldOf(Create(v1::RegisterContextRequest(), Rows(1), &response)), "spec.context_id");
  EXPECT_EQ(FieldOf(Create(Spec(), no_target, &response)), "spec.target_column");
  EXPECT_EQ(FieldOf(Create(Spec(), v1::RegisterContextRequest(), &response)), "rows.columns");
  EXPECT_EQ(registered_, 2);
}

TEST_F(RegisterReactorTest, AValidationReturnsAnEstimate) {
  v1::RegisterContextRequest spec = Spec();
  spec.mutable_spec()->set_validate_only(true);
  v1::RegisterContextResponse streamed;
  ASSERT_TRUE(Send({spec, Rows(2)}, &streamed).ok());
  v1::RegisterContextResponse created;
  ASSERT_TRUE(Create(spec, Rows(2), &created).ok());
  for (const v1::RegisterContextResponse& response : {streamed, created}) {
    EXPECT_EQ(response.context().row_count(), 2);
    EXPECT_EQ(response.estimate().device_bytes(), 12345);
    EXPECT_EQ(response.estimate().duration().seconds(), 1);
    EXPECT_EQ(response.estimate().duration().nanos(), 500'000'000);
  }
  v1::RegisterContextResponse registered;
  ASSERT_TRUE(Create(Spec(), Rows(2), &registered).ok());
  EXPECT_FALSE(registered.has_estimate());
}

TEST_F(RegisterReactorTest, RegisteringTheSameAgainIsUnchanged) {
  outcome_ = PutOutcome::kUnchanged;
  v1::RegisterContextResponse response;
  ASSERT_TRUE(Send({Spec(), Rows(2)}, &response).ok());
  EXPECT_TRUE(response.already_registered());
}

TEST_F(RegisterReactorTest, WrongMessagesAreRefusedByField) {
  v1::RegisterContextRequest no_target = Rows(1);
  no_target.mutable_rows()->mutable_columns(0)->set_name("rent");
  v1::RegisterContextRequest infinite = Rows(3);
  infinite.mutable_rows()->mutable_columns(1)->mutable_numeric()->set_values(2, 1e308 * 10);
  v1::RegisterContextRequest more_columns = Rows(1);
  AddNumeric(more_columns.mutable_rows(), "rooms", {1});
  const std::pair<std::vector<v1::RegisterContextRequest>, const char*> cases[] = {
      {{}, "spec"},
      {{Spec()}, "rows"},
      {{Rows(1)}, "spec"},
      {{Spec(), Spec()}, "spec"},
      {{Spec(), no_target}, "spec.target_column"},
      {{Spec(), infinite}, "rows.columns[1].numeric.values[2]"},
      {{Spec(), Rows(1), more_columns}, "rows.columns"},
      {{Spec(), Rows(1), v1::RegisterContextRequest()}, "payload"},
  };
  for (const auto& [messages, field] : cases) {
    v1::RegisterContextResponse response;
    const grpc::Status status = Send(messages, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << field;
    EXPECT_EQ(FieldOf(status), field);
  }
  EXPECT_EQ(registered_, 0);
}

TEST_F(RegisterReactorTest, AnUploadThatIsCancelledRegistersNothing) {
  for (int i = 0; i < 300; ++i) {
    auto context = NewContext();
    v1::RegisterContextResponse response;
    auto writer = stub_->RegisterContext(context.get(), &response);
    ASSERT_TRUE(writer->Write(Spec()));
    ASSERT_TRUE(writer->Write(Rows(2)));
    if (i % 2 == 0) absl::SleepFor(absl::Milliseconds(1));
    context->TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
  EXPECT_EQ(registered_, 0);
}

TEST_F(RegisterReactorTest, TheEnginesErrorIsPassedOn) {
  engine_->on_register = [](const auto&, const auto&) {
    return absl::AlreadyExistsError("\"houses\" is taken by other content");
  };
  v1::RegisterContextResponse response;
  const grpc::Status status = Send({Spec(), Rows(1)}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(status.error_message(), "\"houses\" is taken by other content");
}

class StalledUploadTest : public RegisterReactorTest {
 protected:
  void SetUp() override {
    options_.stalled_write_timeout = absl::Hours(1);
    options_.metrics_address = "127.0.0.1:0";
    RegisterReactorTest::SetUp();
  }
  // Of the upload, as far as the server has received it.
  std::string Bytes() {
    const std::string page = HttpGet(server_->metrics_port(), "/metrics");
    const size_t line = page.find("chorale_memory_bytes{part=\"registering\"}");
    return page.substr(line, page.find('\n', line) - line);
  }
};

TEST_F(StalledUploadTest, TheWatchdogEndsItAndRegistersNothing) {
  auto context = NewContext(absl::Hours(24));
  v1::RegisterContextResponse response;
  auto writer = stub_->RegisterContext(context.get(), &response);
  // Slow, but each message arrives in time: not a stall.
  ASSERT_TRUE(writer->Write(Spec()));
  std::string received = Bytes();
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(writer->Write(Rows(1)));
    ASSERT_TRUE(Eventually([&] { return Bytes() != received; }));
    received = Bytes();
    clock_.Skip(absl::Minutes(30));
  }
  EXPECT_EQ(server_->live_calls(), 1);
  // Then the client stalls: it neither sends nor disconnects.
  EXPECT_TRUE(SkipUntil(absl::Minutes(15), [&] { return server_->live_calls() == 0; }));
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(registered_, 0);
}

class FullServerTest : public RegisterReactorTest {
 protected:
  void SetUp() override {
    options_.blocking_threads = 1;
    options_.max_blocking_queue = 1;
    options_.registration_memory_bytes = 1000;
    options_.metrics_address = "127.0.0.1:0";
    options_.retry_delay = absl::Milliseconds(1500);
    RegisterReactorTest::SetUp();
  }

  // The bytes that all registrations hold.
  int64_t RegistrationMemory() {
    const std::string page = HttpGet(server_->metrics_port(), "/metrics");
    const std::string name = "chorale_memory_bytes{part=\"registering\"} ";
    return std::stoll(page.substr(page.find("\n" + name) + 1 + name.size()));
  }

  static void ExpectRetry(const grpc::Status& status, const std::string& reason) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    google::rpc::Status details;
    google::rpc::RetryInfo retry;
    ASSERT_TRUE(details.ParseFromString(status.error_details()));
    ASSERT_EQ(details.details_size(), 2);
    EXPECT_EQ(ReasonOf(status), reason);
    ASSERT_TRUE(details.details(1).UnpackTo(&retry));
    EXPECT_EQ(retry.retry_delay().seconds(), 1);
    EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
  }
};

TEST_F(FullServerTest, TheMemoryOfAllRegistrationsIsBounded) {
  v1::RegisterContextResponse response;
  auto context = NewContext();
  auto writer = stub_->RegisterContext(context.get(), &response);
  ASSERT_TRUE(writer->Write(Spec()));
  ASSERT_TRUE(writer->Write(Rows(20)));
  // The other must not come first: then it is this one that would be refused.
  ASSERT_TRUE(Eventually([&] { return RegistrationMemory() > 500; }));
  v1::RegisterContextResponse other;
  ExpectRetry(Send({Spec(), Rows(20)}, &other), "MEMORY_FULL");
  context->TryCancel();
  writer->Finish();
  EXPECT_TRUE(Eventually([&] { return RegistrationMemory() == 0; }));
  EXPECT_TRUE(Send({Spec(), Rows(20)}, &other).ok());
}

// Waiting does not help, so it is not asked for.
TEST_F(FullServerTest, ADatasetThatNeedsMoreThanThereIsForAllIsRefusedForGood) {
  v1::RegisterContextResponse response;
  for (const grpc::Status& status :
       {Send({Spec(), Rows(20), Rows(20)}, &response), Create(Spec(), Rows(40), &response)}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr("--registration_memory_mib"));
    google::rpc::Status details;
    ASSERT_TRUE(details.ParseFromString(status.error_details()));
    EXPECT_EQ(details.details_size(), 1);
    EXPECT_EQ(ReasonOf(status), "DATASET_TOO_LARGE");
  }
}

TEST_F(FullServerTest, CallsThatWaitForTheDiskAreBounded) {
  std::promise<void> gate;
  std::promise<void> running;
  engine_->on_get = [&](const std::string& name) -> absl::StatusOr<ContextInfo> {
    if (name == "slow") {
      running.set_value();
      gate.get_future().wait();
    }
    return absl::NotFoundError(name);
  };
  const auto get = [&](const std::string& name) {
    auto context = NewContext();
    v1::GetContextRequest request;
    request.set_name("contexts/" + name);
    v1::Context response;
    return stub_->GetContext(context.get(), request, &response);
  };
  std::thread first([&] { EXPECT_EQ(get("slow").error_code(), grpc::StatusCode::NOT_FOUND); });
  running.get_future().wait();
  // Again if it is the third that has come into the queue before it.
  std::thread second([&] {
    EXPECT_TRUE(
        Eventually([&] { return get("next").error_code() == grpc::StatusCode::NOT_FOUND; }));
  });
  grpc::Status refused;
  ASSERT_TRUE(Eventually([&] {
    auto context = NewContext(absl::Milliseconds(50));
    v1::GetContextRequest request;
    request.set_name("contexts/third");
    v1::Context response;
    refused = stub_->GetContext(context.get(), request, &response);
    return refused.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  }));
  ExpectRetry(refused, "QUEUE_FULL");
  v1::RegisterContextResponse response;
  ExpectRetry(Send({Spec(), Rows(1)}, &response), "QUEUE_FULL");
  gate.set_value();
  first.join();
  second.join();
}

}  // namespace
}  // namespace chorale
