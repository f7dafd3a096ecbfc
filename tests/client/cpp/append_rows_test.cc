// Client::AppendRows and Client::EncodeAnew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/status_from_grpc.h"
#include "tests/client/cpp/client_fixture.h"
#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AppendRowsTest : public ClientTest {
 protected:
  AppendRowsTest() {
    Register("t");  // 5 rows
    service().TakeContextMetadata();
  }
};

TEST_F(AppendRowsTest, SendsTheRowsAndTheirTerms) {
  const auto appended = client_->AppendRows("t", MakeTable(3), {.first_row = 5});
  ASSERT_TRUE(appended.ok()) << appended.status();
  EXPECT_EQ(appended->row_count, 3);
  EXPECT_FALSE(appended->already_appended);
  EXPECT_EQ(appended->context.row_count(), 8);
  EXPECT_EQ(appended->context.appended_row_count(), 3);
  EXPECT_THAT(service().TakeContextMetadata(), ElementsAre("t"));
  v1::AppendRowsRequest request = service().last_append();
  EXPECT_EQ(request.name(), "contexts/t");
  EXPECT_EQ(request.first_row(), 5);
  EXPECT_EQ(request.rows().columns_size(), 3);
  EXPECT_EQ(request.missing_targets(), v1::ContextSpec::MISSING_TARGETS_UNSPECIFIED);

  const auto again = client_->AppendRows("t", MakeTable(3), {.first_row = 5});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->already_appended);
  EXPECT_EQ(again->row_count, 3);

  const auto validated = client_->AppendRows("t", MakeTable(2),
                                             {.etag = appended->context.etag(),
                                              .missing_targets = MissingTargets::kDrop,
                                              .validate_only = true});
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_EQ(validated->estimate.device_bytes(), 4096);
  request = service().last_append();
  EXPECT_FALSE(request.has_first_row());
  EXPECT_EQ(request.etag(), appended->context.etag());
  EXPECT_EQ(request.missing_targets(), v1::ContextSpec::MISSING_TARGETS_DROP);
  EXPECT_TRUE(request.validate_only());
  EXPECT_EQ(client_->GetContext("t")->row_count(), 8);
}

TEST_F(AppendRowsTest, ReportsOtherRowCountsAndEtags) {
  const auto count = client_->AppendRows("t", MakeTable(3), {.first_row = 4});
  EXPECT_EQ(count.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReason(count.status()), "ROW_COUNT_MISMATCH");
  const auto etag = client_->AppendRows("t", MakeTable(3), {.etag = "another"});
  EXPECT_EQ(ErrorReason(etag.status()), "ETAG_MISMATCH");
  v1::Source source;
  source.set_context_digest("another");
  const auto digest = client_->AppendRows("t", MakeTable(3), {.expected_source = source});
  EXPECT_EQ(digest.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(digest.status()), "SOURCE_CHANGED");
  source.set_context_digest(client_->GetContext("t")->digest());
  EXPECT_TRUE(client_->AppendRows("t", MakeTable(3), {.expected_source = source}).ok());
  for (const absl::Status& status : {count.status(), etag.status(), digest.status()}) {
    EXPECT_FALSE(OutcomeUnknown(status)) << status;
  }
  const auto none = client_->AppendRows("t", DataFrame(), {});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("no rows"));
  EXPECT_EQ(client_->AppendRows("u", MakeTable(3), {}).status().code(),
            absl::StatusCode::kNotFound);
}

// A retry without the number of rows could append the rows twice.
TEST_F(AppendRowsTest, IsRetriedOnlyIfItCannotAppendTwice) {
  const grpc::Status draining(grpc::StatusCode::UNAVAILABLE, "draining");
  service().FailNext({draining});
  EXPECT_EQ(client_->AppendRows("t", MakeTable(1), {}).status().code(),
            absl::StatusCode::kUnavailable);
  service().FailNext({draining});
  EXPECT_TRUE(client_->AppendRows("t", MakeTable(1), {.validate_only = true}).ok());
  service().FailNext({draining});
  EXPECT_EQ(client_->AppendRows("t", MakeTable(1), {.first_row = 5})->row_count, 1);
}

TEST_F(AppendRowsTest, ErrorsThatLeaveTheOutcomeOpenAreMarked) {
  const auto fail = [&](std::vector<grpc::Status> statuses, const AppendOptions& options) {
    service().FailNext(std::move(statuses));
    return OutcomeUnknown(client_->AppendRows("t", MakeTable(1), options).status());
  };
  const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "connection reset");
  const grpc::Status draining =
      WithReason(grpc::StatusCode::UNAVAILABLE, "draining", "DRAINING", "chorale");
  EXPECT_TRUE(fail({lost}, {}));
  EXPECT_TRUE(fail({grpc::Status(grpc::StatusCode::INTERNAL, "broken")}, {}));
  EXPECT_FALSE(fail({draining}, {}));
  EXPECT_FALSE(fail({WithBadField("bad", "rows", "is bad")}, {}));
  EXPECT_FALSE(fail({grpc::Status(grpc::StatusCode::INTERNAL, "broken")}, {.validate_only = true}));
  // A later attempt does not reveal what became of the first.
  const grpc::Status denied(grpc::StatusCode::PERMISSION_DENIED, "denied");
  EXPECT_TRUE(fail({lost, denied}, {.first_row = 5}));
  EXPECT_FALSE(fail({draining, denied}, {.first_row = 5}));

  service().set_append_without_response(true);
  const auto late = client_->AppendRows("t", MakeTable(1), {}, {.timeout = absl::Milliseconds(50)});
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(OutcomeUnknown(late.status()));
  EXPECT_EQ(client_->GetContext("t")->row_count(), 6);
}

TEST_F(AppendRowsTest, ContextsAreEncodedAnew) {
  ASSERT_TRUE(client_->AppendRows("t", MakeTable(3), {}).ok());
  EXPECT_EQ(client_->WarmContext("t")->appended_row_count(), 3);
  const auto anew = client_->EncodeAnew("t");
  ASSERT_TRUE(anew.ok()) << anew.status();
  EXPECT_EQ(anew->appended_row_count(), 0);
  EXPECT_EQ(anew->state(), v1::Context::STATE_RESIDENT);
}

}  // namespace
}  // namespace chorale::client
