#include "server/rpc/append_rows.h"

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"
#include "tests/support/http_get.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

class AppendRowsTest : public ServerFixture {
 protected:
  void SetUp() override {
    options_.metrics_address = "127.0.0.1:0";
    engine_->on_get = [this](const std::string& name) -> absl::StatusOr<ContextInfo> {
      if (name != "houses") {
        return MakeError(ErrorReason::kContextNotFound, "no context with this name");
      }
      ContextInfo info;
      info.record.name = name;
      info.record.dataset_bytes = dataset_bytes_;
      info.record.created = absl::UnixEpoch();
      return info;
    };
    engine_->on_append = [this](const AppendRequest& request,
                                const Table& rows) -> absl::StatusOr<AppendOutcome> {
      request_ = request;
      rows_ = rows;
      AppendOutcome outcome;
      outcome.context.record.name = request.context;
      outcome.context.record.model = "standard";
      outcome.context.record.target = "price";
      outcome.context.record.rows = 10;
      outcome.context.record.appended_rows = 4;
      outcome.context.record.created = absl::UnixEpoch();
      outcome.already_appended = already_appended_;
      outcome.rows = rows.rows();
      if (request.validate_only) outcome.estimate = Estimate{12345, absl::Milliseconds(1500)};
      ++appends_;
      return outcome;
    };
    StartServer();
    OpenServer();
  }

  static v1::AppendRowsRequest Rows(int64_t rows, const std::string& context = "houses") {
    v1::AppendRowsRequest message;
    message.set_name("contexts/" + context);
    AddNumeric(message.mutable_rows(), "price", std::vector<double>(rows, 1));
    AddNumeric(message.mutable_rows(), "age", std::vector<double>(rows, 2));
    return message;
  }

  grpc::Status Append(const v1::AppendRowsRequest& request, v1::AppendRowsResponse* response) {
    response->Clear();
    return stub_->AppendRows(NewContext().get(), request, response);
  }
  grpc::Status Append(const v1::AppendRowsRequest& request) {
    v1::AppendRowsResponse response;
    return Append(request, &response);
  }

  int64_t RegistrationMemory() {
    const std::string page = HttpGet(server_->metrics_port(), "/metrics");
    const std::string name = "chorale_memory_bytes{part=\"registering\"} ";
    return std::stoll(page.substr(page.find("\n" + name) + 1 + name.size()));
  }

  std::atomic<int64_t> dataset_bytes_{100};
  std::atomic<bool> already_appended_{false};
  std::atomic<int> appends_{0};
  AppendRequest request_;  // of the last call of the engine
  Table rows_;
};

TEST_F(AppendRowsTest, RowsAndTermsReachTheEngine) {
  v1::AppendRowsRequest request = Rows(4);
  request.set_first_row(6);
  request.set_etag("e");
  request.mutable_expected_source()->set_context_digest("d");
  v1::AppendRowsResponse response;
  const grpc::Status status = Append(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(request_.context, "houses");
  EXPECT_EQ(request_.first_row, 6);
  EXPECT_EQ(request_.etag, "e");
  EXPECT_EQ(request_.expected_digest, "d");
  ASSERT_EQ(rows_.columns.size(), 2u);
  EXPECT_EQ(rows_.columns[0].name, "price");
  EXPECT_EQ(rows_.columns[1].numbers, std::vector<double>(4, 2));
  EXPECT_EQ(response.context().name(), "contexts/houses");
  EXPECT_EQ(response.context().row_count(), 10);
  EXPECT_EQ(response.context().appended_row_count(), 4);
  EXPECT_EQ(response.appended_row_count(), 4);
  EXPECT_FALSE(response.already_appended());
  EXPECT_FALSE(response.has_estimate());

  already_appended_ = true;
  ASSERT_TRUE(Append(request, &response).ok());
  EXPECT_TRUE(response.already_appended());
  EXPECT_EQ(response.appended_row_count(), 4);
}

TEST_F(AppendRowsTest, AValidationReturnsAnEstimate) {
  v1::AppendRowsRequest request = Rows(2);
  request.set_validate_only(true);
  v1::AppendRowsResponse response;
  ASSERT_TRUE(Append(request, &response).ok());
  EXPECT_EQ(response.context().etag(), "");
  EXPECT_EQ(response.estimate().device_bytes(), 12345);
  EXPECT_EQ(response.estimate().duration().seconds(), 1);
}

TEST_F(AppendRowsTest, ErrorsNameTheField) {
  EXPECT_EQ(FieldOf(Append(v1::AppendRowsRequest())), "name");
  v1::AppendRowsRequest none;
  none.set_name("contexts/houses");
  EXPECT_EQ(FieldOf(Append(none)), "rows.columns");
  EXPECT_EQ(FieldOf(Append(Rows(0))), "rows");
  Limits limits;
  limits.max_context_rows = 3;
  server_->SetLimits(limits);
  const grpc::Status too_many = Append(Rows(4));
  EXPECT_EQ(FieldOf(too_many), "rows");
  EXPECT_THAT(too_many.error_message(), HasSubstr("has 4 rows; the limit is 3"));
  EXPECT_EQ(Append(Rows(1, "others")).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(appends_, 0);
}

TEST_F(AppendRowsTest, ErrorsOfTheEngineKeepTheirReason) {
  const std::pair<absl::Status, grpc::StatusCode> cases[] = {
      {MakeError(ErrorReason::kRowCountMismatch, "has 12 rows, not 10"), grpc::StatusCode::ABORTED},
      {MakeError(ErrorReason::kSourceChanged, "has another digest"),
       grpc::StatusCode::FAILED_PRECONDITION},
      {MakeError(ErrorReason::kAppendUnsupported, "is reduced to a memory set"),
       grpc::StatusCode::FAILED_PRECONDITION}};
  for (const auto& [error, code] : cases) {
    engine_->on_append = [&error = error](const AppendRequest&, const Table&) {
      return absl::StatusOr<AppendOutcome>(error);
    };
    const grpc::Status status = Append(Rows(1));
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(ReasonOf(status), ErrorReasonOf(error));
    EXPECT_EQ(status.error_message(), error.message());
  }
}

class LittleMemoryTest : public AppendRowsTest {
 protected:
  void SetUp() override {
    options_.registration_memory_bytes = 10'000;
    AppendRowsTest::SetUp();
  }
};

TEST_F(LittleMemoryTest, MustSufficeForTheWholeDataset) {
  ASSERT_TRUE(Append(Rows(1)).ok());
  EXPECT_EQ(RegistrationMemory(), 0);
  dataset_bytes_ = 10'000;
  const grpc::Status status = Append(Rows(1));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "DATASET_TOO_LARGE");
  EXPECT_THAT(status.error_message(), HasSubstr("the append needs more memory"));
  EXPECT_THAT(status.error_message(), HasSubstr("--registration_memory_mib"));
  EXPECT_EQ(ReasonOf(Append(Rows(1000))), "DATASET_TOO_LARGE");
  EXPECT_EQ(appends_, 1);
  EXPECT_EQ(RegistrationMemory(), 0);
}

TEST_F(LittleMemoryTest, IsHeldWhileTheRowsAreAppended) {
  dataset_bytes_ = 1000;
  std::promise<void> running;
  std::promise<void> gate;
  engine_->on_append = [&](const AppendRequest&, const Table&) -> absl::StatusOr<AppendOutcome> {
    running.set_value();
    gate.get_future().wait();
    return absl::AbortedError("enough");
  };
  std::thread first([&] { EXPECT_EQ(Append(Rows(1)).error_code(), grpc::StatusCode::ABORTED); });
  running.get_future().wait();
  EXPECT_GE(RegistrationMemory(), 2000);
  dataset_bytes_ = 4000;
  EXPECT_EQ(ReasonOf(Append(Rows(1))), "MEMORY_FULL");
  gate.set_value();
  first.join();
  EXPECT_EQ(RegistrationMemory(), 0);  // before the client sees the end of the call
}

}  // namespace
}  // namespace chorale
