// The files of a running server are taken away, or their disk is full: it says so, acknowledges
// nothing that would be lost, and serves what it has.
#include <grpcpp/support/status.h>

#include <filesystem>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/error_reasons.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StoreLossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start(
        {.models = {GoldenFolder("golden_tiny")}, .data_dir = data_, .flags = {"--threads=1"}});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
    ASSERT_TRUE(client_->Register("data", RandomRows(200, 3, 1)).ok());
    ASSERT_TRUE(Predicts());
  }

  bool Predicts() const {
    return client_->Predict(MakePredict("data", RandomRows(2, 3, 2))).status.ok();
  }
  void ExpectLost(const grpc::Status& status) const {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(status), "STORE_LOST");
    EXPECT_THAT(status.error_message(), Not(HasSubstr("/")));
  }

  const TempFolder folder_;
  const std::string data_ = folder_ / "data";
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(StoreLossTest, AFolderThatWasMovedIsNoticedAndFoundAgain) {
  std::filesystem::rename(data_, data_ + ".aside");
  ExpectLost(client_->Register("more", RandomRows(20, 3, 3)).status);
  ExpectLost(client_->Delete("data"));
  EXPECT_TRUE(Eventually([&] { return Health(server_->address()) == "NOT_SERVING"; }));
  server_->ExpectLog("was removed, moved or replaced while it is open");
  EXPECT_TRUE(Predicts());
  EXPECT_TRUE(client_->Get("data").ok());

  std::filesystem::rename(data_ + ".aside", data_);
  EXPECT_TRUE(Eventually([&] { return Health(server_->address()) == "SERVING"; }));
  EXPECT_TRUE(client_->Register("more", RandomRows(20, 3, 3)).ok());
}

TEST_F(StoreLossTest, ADatabaseThatWasRemovedIsNoticed) {
  ASSERT_TRUE(std::filesystem::remove(data_ + "/contexts.db"));
  ExpectLost(client_->Register("more", RandomRows(20, 3, 3)).status);
  EXPECT_TRUE(Eventually([&] { return Health(server_->address()) == "NOT_SERVING"; }));
  EXPECT_TRUE(Predicts());
  // A second server on that folder shares nothing with this one.
  const auto second = ServerProcess::Spawn(
      {.models = {GoldenFolder("golden_tiny")}, .data_dir = data_, .flags = {"--threads=1"}});
  EXPECT_EQ(second->ExitCode(), 1);
  EXPECT_THAT(second->log(), HasSubstr("in use by another process"));
}

}  // namespace
}  // namespace chorale::end_to_end
