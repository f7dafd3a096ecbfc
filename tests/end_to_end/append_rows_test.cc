// Rows that are appended to contexts of a real server.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/secure_server.h"
#include "tests/end_to_end/server_process.h"
#include "tests/golden/golden_table.h"
#include "tests/support/error_reasons.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kFeatures = 2;
constexpr int64_t kRows = 240;  // of which the first kBase are registered
constexpr int64_t kBase = 200;
constexpr int64_t kQueryRows = 16;
constexpr char kNever[] = "--max_appended_percent=1000000";  // not in the background

Rows Table() { return RandomRows(kRows, kFeatures, 1); }
Rows Questions() { return RandomRows(kQueryRows, kFeatures, 2); }

v1::AppendRowsRequest Append(const std::string& id, const v1::Table& rows,
                             std::optional<int64_t> first_row = std::nullopt) {
  v1::AppendRowsRequest request;
  request.set_name("contexts/" + id);
  *request.mutable_rows() = rows;
  if (first_row.has_value()) request.set_first_row(*first_row);
  return request;
}

Reply<v1::AppendRowsResponse> Send(const ApiClient& client, const v1::AppendRowsRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  Reply<v1::AppendRowsResponse> reply;
  reply.status = client.stub().AppendRows(&context, request, &reply.value);
  return reply;
}

Reply<v1::Context> EncodeAnew(const ApiClient& client, const std::string& id) {
  v1::WarmContextRequest request;
  request.set_name("contexts/" + id);
  request.set_encode_anew(true);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  Reply<v1::Context> reply;
  reply.status = client.stub().WarmContext(&context, request, &reply.value);
  return reply;
}

class AppendRowsTest : public ::testing::Test {
 protected:
  // All servers of a test have the same data.
  void Start(const std::vector<std::string>& flags = {kNever}) {
    client_.reset();
    if (server_ != nullptr) server_->Terminate();
    server_ = ServerProcess::Start(
        {.models = {DefaultModelFolder()}, .data_dir = data_.path(), .flags = flags});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }
  void TearDown() override {
    client_.reset();
    if (server_ != nullptr) server_->Terminate();
  }

  // Registers the first rows of the table.
  v1::Context Register(const std::string& id, int64_t rows = kBase) const {
    const auto reply = client_->Register(id, ContextTable(Table(), 0, rows), "y");
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value.context();
  }
  // Appends the rows [first, end) of the table.
  v1::AppendRowsResponse AppendRange(const std::string& id, int64_t first, int64_t end) const {
    const auto reply = Send(*client_, Append(id, ContextTable(Table(), first, end - first), first));
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value;
  }
  v1::PredictResponse Predict(const std::string& id) const {
    const auto reply = client_->Predict(MakePredict(id, Questions()));
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value;
  }
  Samples Sample(const std::string& id) const {
    return client_->Sample(MakeSample(id, Questions(), /*paths=*/4, /*seed=*/3));
  }
  PrometheusPage Page() const { return PrometheusPage::Fetch(server_->metrics_address()); }

  const TempFolder data_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(AppendRowsTest, TheNextCallSeesTheRowsAndARestartChangesNoBit) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const v1::Context base = Register("c");
  const v1::PredictResponse before = Predict("c");
  const v1::AppendRowsResponse first = AppendRange("c", kBase, kBase + 1);
  EXPECT_EQ(first.appended_row_count(), 1);
  EXPECT_EQ(first.context().row_count(), kBase + 1);
  EXPECT_EQ(first.context().appended_row_count(), 1);
  EXPECT_NE(first.context().digest(), base.digest());
  EXPECT_NE(first.context().etag(), base.etag());
  Predict("c");  // waits for the encoding of the row
  const v1::AppendRowsResponse second = AppendRange("c", kBase + 1, kRows);
  EXPECT_EQ(second.appended_row_count(), kRows - kBase - 1);
  EXPECT_EQ(second.context().appended_row_count(), kRows - kBase);
  EXPECT_EQ(second.context().create_time().SerializeAsString(),
            base.create_time().SerializeAsString());

  const v1::PredictResponse after = Predict("c");
  EXPECT_EQ(after.source().context_digest(), second.context().digest());
  EXPECT_FALSE(SameBits(after, before));
  const Samples samples = Sample("c");
  EXPECT_TRUE(samples.complete());
  const PrometheusPage page = Page();
  EXPECT_EQ(page.Value("chorale_appends_total"), 2);
  EXPECT_EQ(page.Value("chorale_appended_rows_total"), kRows - kBase);
  EXPECT_EQ(page.Value("chorale_encoded_rows_total"), kRows) << "no row is encoded twice";
  EXPECT_EQ(page.Value("chorale_encodings_anew_total"), 0);

  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_EQ(client_->Get("c").value.digest(), second.context().digest());
  EXPECT_EQ(client_->Get("c").value.appended_row_count(), kRows - kBase);
  EXPECT_TRUE(SameBits(Predict("c"), after));
  EXPECT_TRUE(SameBits(Sample("c"), samples));
}

TEST_F(AppendRowsTest, ARepeatedCallAppendsNothing) {
  ASSERT_NO_FATAL_FAILURE(Start());
  Register("c");
  const v1::AppendRowsRequest request =
      Append("c", ContextTable(Table(), kBase, kRows - kBase), kBase);
  const auto first = Send(*client_, request);
  ASSERT_TRUE(first.ok()) << first.status.error_message();
  EXPECT_FALSE(first.value.already_appended());
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto again = Send(*client_, request);
  ASSERT_TRUE(again.ok()) << again.status.error_message();
  EXPECT_TRUE(again.value.already_appended());
  EXPECT_EQ(again.value.appended_row_count(), kRows - kBase);
  EXPECT_EQ(again.value.context().etag(), first.value.context().etag());
  // Other rows are not these rows.
  const auto other = Send(*client_, Append("c", ContextTable(Table(), 0, kRows - kBase), kBase));
  EXPECT_EQ(other.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(other.status), "ROW_COUNT_MISMATCH");
  EXPECT_THAT(other.status.error_message(), HasSubstr(absl::StrCat(kRows)));
  EXPECT_THAT(other.status.error_message(), HasSubstr(absl::StrCat(kBase)));
  EXPECT_EQ(client_->Get("c").value.row_count(), kRows);
}

TEST_F(AppendRowsTest, RowsAreNotAppendedToATableThatHasReplacedTheContent) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::AppendRowsRequest request = Append("c", ContextTable(Table(), kBase, 2), kBase);
  request.mutable_expected_source()->set_context_digest(Register("c").digest());
  v1::ContextSpec spec;
  spec.set_context_id("c");
  spec.set_target_column("y");
  spec.set_replace(true);
  ASSERT_TRUE(client_->Upload(spec, {ContextTable(Table(), 1, kBase)}).ok());
  const auto refused = Send(*client_, request);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(refused.status), "SOURCE_CHANGED");
  EXPECT_EQ(client_->Get("c").value.row_count(), kBase);

  request.mutable_expected_source()->set_context_digest(client_->Get("c").value.digest());
  ASSERT_TRUE(Send(*client_, request).ok());
  const auto again = Send(*client_, request);
  ASSERT_TRUE(again.ok()) << again.status.error_message();
  EXPECT_TRUE(again.value.already_appended());
  EXPECT_EQ(again.value.context().row_count(), kBase + 2);
}

TEST_F(AppendRowsTest, EncodedAnewTheContentIsThatOfARegistration) {
  ASSERT_NO_FATAL_FAILURE(Start());
  Register("c");
  const v1::PredictResponse before = Predict("c");
  AppendRange("c", kBase, kRows);
  const v1::PredictResponse appended = Predict("c");
  const auto anew = EncodeAnew(*client_, "c");
  ASSERT_TRUE(anew.ok()) << anew.status.error_message();
  const v1::Context whole = Register("whole", kRows);
  EXPECT_EQ(anew.value.digest(), whole.digest());
  EXPECT_EQ(anew.value.appended_row_count(), 0);
  EXPECT_EQ(anew.value.row_count(), kRows);
  EXPECT_EQ(anew.value.state(), v1::Context::STATE_RESIDENT);
  const v1::PredictResponse after = Predict("c");
  EXPECT_TRUE(SameBits(after, Predict("whole")));
  EXPECT_FALSE(SameBits(after, appended));
  EXPECT_FALSE(SameBits(after, before));
  EXPECT_EQ(Page().Value("chorale_encodings_anew_total", "outcome=\"replaced\""), 1);
  // The repeated append is recognised, and without appended rows there is nothing to do.
  EXPECT_TRUE(AppendRange("c", kBase, kRows).already_appended());
  EXPECT_TRUE(EncodeAnew(*client_, "c").ok());
  EXPECT_EQ(Page().Value("chorale_encodings_anew_total", "outcome=\"replaced\""), 1);
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_EQ(client_->Get("c").value.digest(), whole.digest());
  EXPECT_TRUE(SameBits(Predict("c"), after));
}

TEST_F(AppendRowsTest, ManyAppendedRowsAreEncodedAnewInTheBackground) {
  ASSERT_NO_FATAL_FAILURE(Start({"--max_appended_percent=10"}));
  Register("c");
  ASSERT_TRUE(client_->Warm("c").ok());
  AppendRange("c", kBase, kBase + 20);
  EXPECT_EQ(client_->Get("c").value.appended_row_count(), 20)
      << "10 percent are not more than that";
  AppendRange("c", kBase + 20, kBase + 21);
  EXPECT_TRUE(Eventually([&] { return client_->Get("c").value.appended_row_count() == 0; }));
  const v1::Context whole = Register("whole", kBase + 21);
  EXPECT_EQ(client_->Get("c").value.digest(), whole.digest());
  EXPECT_TRUE(SameBits(Predict("c"), Predict("whole")));
}

TEST_F(AppendRowsTest, ErrorsNameTheFieldAndChangeNothing) {
  ASSERT_NO_FATAL_FAILURE(Start({kNever, "--max_context_rows=205"}));
  const v1::Context base = Register("c");
  const auto fields = [&](const v1::AppendRowsRequest& request) {
    const auto reply = Send(*client_, request);
    EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    const ErrorDetails details = DetailsOf(reply.status);
    return details.fields.empty() ? "" : details.fields[0];
  };
  EXPECT_EQ(fields(Append("c", v1::Table())), "rows.columns");
  EXPECT_EQ(fields(Append("c", FeatureTable(Table(), 0, 1))), "rows.columns") << "no target";
  v1::Table missing = ContextTable(Table(), 0, 1);
  missing.mutable_columns()->DeleteSubrange(0, 1);
  EXPECT_THAT(fields(Append("c", missing)), HasSubstr("rows")) << "no column x0";
  EXPECT_EQ(fields(Append("c", ContextTable(Table(), 0, 6))), "rows") << "too many together";
  EXPECT_EQ(fields(Append("c", ContextTable(Table(), 0, 1), -1)), "first_row");
  v1::AppendRowsRequest etag = Append("c", ContextTable(Table(), 0, 1));
  etag.set_etag("another");
  EXPECT_EQ(ReasonOf(Send(*client_, etag).status), "ETAG_MISMATCH");
  EXPECT_EQ(ReasonOf(Send(*client_, Append("d", ContextTable(Table(), 0, 1))).status),
            "CONTEXT_NOT_FOUND");
  v1::AppendRowsRequest valid = Append("c", ContextTable(Table(), kBase, 5), kBase);
  valid.set_validate_only(true);
  const auto validated = Send(*client_, valid);
  ASSERT_TRUE(validated.ok()) << validated.status.error_message();
  EXPECT_EQ(validated.value.context().row_count(), kBase + 5);
  EXPECT_EQ(validated.value.context().etag(), "");
  EXPECT_GT(validated.value.estimate().device_bytes(), 0);
  EXPECT_EQ(client_->Get("c").value.etag(), base.etag());
}

TEST_F(AppendRowsTest, RowsWithoutATargetAreDroppedOnRequest) {
  ASSERT_NO_FATAL_FAILURE(Start());
  Register("c");
  v1::Table rows;
  const auto add = [&](const std::string& name, const std::vector<std::string>& texts) {
    v1::Column* const column = rows.add_columns();
    column->set_name(name);
    for (const std::string& text : texts) column->mutable_strings()->add_values(text);
  };
  add("y", {"0.5", "", "1"});
  add("x1", {"0.25", "0.5", "0.75"});
  add("x0", {"1", "2", "3"});
  v1::AppendRowsRequest request = Append("c", rows, kBase);
  EXPECT_EQ(Send(*client_, request).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_missing_targets(v1::ContextSpec::MISSING_TARGETS_DROP);
  const auto reply = Send(*client_, request);
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.value.appended_row_count(), 2);
  ASSERT_GE(reply.value.warnings_size(), 1);
  EXPECT_EQ(reply.value.warnings(0).reason(), v1::Warning::REASON_DROPPED_ROWS);
  EXPECT_EQ(reply.value.warnings(0).cell_count(), 1);
  EXPECT_TRUE(Send(*client_, request).value.already_appended());
}

TEST_F(AppendRowsTest, ThePolicyOfAMemorySetDecidesWhetherRowsCanBeAppended) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::ContextSpec spec;
  spec.set_target_column("y");
  spec.set_memory_row_count(64);
  for (const v1::MemoryPolicy policy : {v1::MEMORY_POLICY_MERGE, v1::MEMORY_POLICY_HEAVY}) {
    const std::string name = absl::StrCat("c", static_cast<int>(policy));
    spec.set_context_id(name);
    spec.set_memory_policy(policy);
    ASSERT_TRUE(client_->Upload(spec, {ContextTable(Table(), 0, kBase)}).ok());
    const auto reply = Send(*client_, Append(name, ContextTable(Table(), kBase, 1)));
    if (policy == v1::MEMORY_POLICY_MERGE) {
      ASSERT_TRUE(reply.ok()) << reply.status.error_message();
      EXPECT_EQ(reply.value.context().appended_row_count(), 1);
      EXPECT_EQ(reply.value.context().memory_row_count(), 64);
      Predict(name);
    } else {
      EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
      EXPECT_EQ(ReasonOf(reply.status), "APPEND_UNSUPPORTED");
      EXPECT_THAT(reply.status.error_message(), HasSubstr("heavy"));
    }
  }
}

class AppendRightsTest : public SecureServerTest {};

TEST_F(AppendRightsTest, RolesQuotasAndTheAudit) {
  Replace("tenants", "tenants: {acme: {max_dataset_mib: 1}}\n");
  Start({kNever});
  const ApiClient acme = Client("acme");
  const ApiClient reader = Client("acme-reader");
  ASSERT_TRUE(acme.Register("c", RandomRows(20'000, 3, 1)).ok());  // of 0.6 MiB
  const auto small = Append("c", ContextTable(RandomRows(10, 3, 2), 0, 10));
  EXPECT_EQ(Send(reader, small).status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(Send(acme, small).ok());
  server_->ExpectLog("audit method=AppendRows code=OK tenant=acme");
  const grpc::Status large =
      Send(acme, Append("c", ContextTable(RandomRows(20'000, 3, 3), 0, 20'000))).status;
  EXPECT_EQ(ReasonOf(large), "QUOTA_EXCEEDED");
  EXPECT_EQ(acme.Get("c").value.row_count(), 20'010);
  EXPECT_EQ(Send(Client("zeta"), small).status.error_code(), grpc::StatusCode::NOT_FOUND);
  const grpc::Status denied = EncodeAnew(reader, "c").status;
  EXPECT_EQ(denied.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(denied.error_message(),
              HasSubstr("WarmContext with encode_anew requires the role register"));
  EXPECT_EQ(acme.Get("c").value.appended_row_count(), 10);
}

}  // namespace
}  // namespace chorale::end_to_end
