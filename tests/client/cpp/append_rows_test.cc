// Client::AppendRows and Client::EncodeAnew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/status_from_grpc.h"
#include "tests/client/cpp/client_fixture.h"

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
  EXPECT_EQ(again->row_count, 0);

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
