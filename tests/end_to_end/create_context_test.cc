// Registrations by CreateContext, and validate_only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {
namespace {

class CreateContextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start(
        {.models = {GoldenFolder("golden_tiny")}, .data_dir = folder_ / "data"});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }
  void TearDown() override {
    client_.reset();  // an idle client takes seconds to see that its server says goodbye
    if (server_ != nullptr) server_->Terminate();
  }

  static v1::ContextSpec Spec(const std::string& id) {
    v1::ContextSpec spec;
    spec.set_context_id(id);
    spec.set_target_column("y");
    return spec;
  }

  const TempFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(CreateContextTest, ATableInASingleMessageIsTheSameContext) {
  const Rows rows = RandomRows(20, 3, 2);
  v1::CreateContextRequest request;
  *request.mutable_spec() = Spec("single");
  *request.mutable_rows() = ContextTable(rows, 0, rows.count());
  request.mutable_spec()->set_validate_only(true);
  const auto validated = client_->Create(request);
  ASSERT_TRUE(validated.ok()) << validated.status.error_message();
  EXPECT_TRUE(client_->List().value.empty());
  request.mutable_spec()->set_validate_only(false);
  const auto created = client_->Create(request);
  ASSERT_TRUE(created.ok()) << created.status.error_message();
  EXPECT_FALSE(created.value.already_registered());
  EXPECT_EQ(created.value.context().row_count(), 20);
  EXPECT_EQ(created.value.context().digest(), validated.value.context().digest());
  EXPECT_EQ(created.value.context().dataset_bytes(), validated.value.context().dataset_bytes());
  EXPECT_EQ(created.value.context().resident_bytes(), validated.value.context().resident_bytes());
  EXPECT_GE(validated.value.estimate().device_bytes(), created.value.context().resident_bytes());
  EXPECT_FALSE(validated.value.estimate().has_duration()) << "nothing was encoded yet";

  v1::SampleRequest sample = MakeSample("single", RandomRows(5, 3, 4), 10, 1);
  sample.set_validate_only(true);
  const auto estimate_of = [&] {
    grpc::ClientContext context;
    const auto reader = client_->stub().Sample(&context, sample);
    v1::SampleResponse response;
    EXPECT_TRUE(reader->Read(&response));
    EXPECT_TRUE(response.has_summary());
    v1::SampleResponse more;
    EXPECT_FALSE(reader->Read(&more));
    EXPECT_TRUE(reader->Finish().ok());
    return response.summary().estimate();
  };
  const v1::Estimate before = estimate_of();
  EXPECT_GT(before.device_bytes(), 0);
  EXPECT_FALSE(before.has_duration());
  EXPECT_EQ(client_->Get("single").value.state(), v1::Context::STATE_NOT_RESIDENT);
  v1::SampleRequest drawn = sample;
  drawn.set_validate_only(false);
  EXPECT_TRUE(client_->Sample(drawn).status.ok());
  EXPECT_EQ(estimate_of().device_bytes(), before.device_bytes());
  EXPECT_TRUE(estimate_of().has_duration());

  const auto streamed = client_->Register("single", rows, "", /*chunk_rows=*/7);
  ASSERT_TRUE(streamed.ok()) << streamed.status.error_message();
  EXPECT_TRUE(streamed.value.already_registered());
  EXPECT_EQ(streamed.value.context().digest(), created.value.context().digest());

  *request.mutable_rows() = ContextTable(RandomRows(20, 3, 3), 0, 20);
  EXPECT_EQ(client_->Create(request).status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  request.mutable_spec()->set_target_column("z");
  EXPECT_THAT(DetailsOf(client_->Create(request).status).fields,
              ::testing::ElementsAre("spec.target_column"));
}

TEST_F(CreateContextTest, ContextsAreReplacedAndDeletedByEtag) {
  v1::CreateContextRequest request;
  *request.mutable_spec() = Spec("a");
  *request.mutable_rows() = ContextTable(RandomRows(20, 3, 2), 0, 20);
  request.mutable_spec()->set_replace(true);
  const auto first = client_->Create(request);
  ASSERT_TRUE(first.ok()) << first.status.error_message();
  EXPECT_FALSE(first.value.replaced());
  *request.mutable_rows() = ContextTable(RandomRows(20, 3, 3), 0, 20);
  request.mutable_spec()->set_etag("other");
  EXPECT_EQ(client_->Create(request).status.error_code(), grpc::StatusCode::ABORTED);
  request.mutable_spec()->set_etag(first.value.context().etag());
  const auto second = client_->Create(request);
  ASSERT_TRUE(second.ok()) << second.status.error_message();
  EXPECT_TRUE(second.value.replaced());
  EXPECT_NE(second.value.context().digest(), first.value.context().digest());

  const auto remove = [&](const std::string& etag, bool allow_missing) {
    grpc::ClientContext context;
    v1::DeleteContextRequest message;
    message.set_name("contexts/a");
    message.set_etag(etag);
    message.set_allow_missing(allow_missing);
    google::protobuf::Empty nothing;
    return client_->stub().DeleteContext(&context, message, &nothing).error_code();
  };
  EXPECT_EQ(remove(first.value.context().etag(), false), grpc::StatusCode::ABORTED);
  EXPECT_EQ(remove(second.value.context().etag(), false), grpc::StatusCode::OK);
  EXPECT_EQ(remove("", false), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(remove("", true), grpc::StatusCode::OK);
}

TEST_F(CreateContextTest, DetailsSurviveARestart) {
  const Rows rows = RandomRows(20, 3, 2);
  v1::CreateContextRequest request;
  *request.mutable_spec() = Spec("a");
  *request.mutable_rows() = ContextTable(rows, 0, rows.count());
  request.mutable_spec()->set_description("first");
  (*request.mutable_spec()->mutable_labels())["team"] = "b";
  request.mutable_spec()->mutable_ttl()->set_seconds(3600);
  const auto created = client_->Create(request);
  ASSERT_TRUE(created.ok()) << created.status.error_message();
  const v1::Context& context = created.value.context();
  EXPECT_EQ(context.description(), "first");
  EXPECT_EQ(context.labels().at("team"), "b");
  EXPECT_GT(context.expire_time().seconds(), context.create_time().seconds() + 3500);
  EXPECT_FALSE(context.has_last_use_time());
  EXPECT_FALSE(context.etag().empty());
  ASSERT_TRUE(client_->Warm("a").ok());
  EXPECT_TRUE(client_->Get("a").value.has_last_use_time());

  client_.reset();
  server_->Terminate();
  SetUp();
  const v1::Context after = client_->Get("a").value;
  EXPECT_EQ(after.description(), "first");
  EXPECT_EQ(after.etag(), context.etag());
  EXPECT_EQ(after.expire_time().seconds(), context.expire_time().seconds());
  EXPECT_TRUE(after.has_last_use_time());

  request.mutable_spec()->clear_ttl();
  request.mutable_spec()->mutable_expire_time()->set_seconds(1);
  EXPECT_THAT(DetailsOf(client_->Create(request).status).fields,
              ::testing::ElementsAre("spec.expire_time"));
}

}  // namespace
}  // namespace chorale::end_to_end
