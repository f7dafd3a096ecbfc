// Models that come and go while the server serves, as its configuration says.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// A server whose only entry of --models is a folder of models, with one model, "first".
class ModelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(models_);
    Put("first", 1);
    server_ = ServerProcess::Start({.models = {models_}});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }

  // Random weights, of which each seed has its own.
  void Put(const std::string& name, uint64_t seed) const {
    ModelFiles model({});
    model.FillRandom(seed, 1.0);
    model.Write(absl::StrCat(models_, "/", name));
  }
  void Take(const std::string& name) const { fs::remove_all(absl::StrCat(models_, "/", name)); }
  // Lets the server look, and waits until it has written `line` `count` times in all.
  void Reload(const std::string& line, int count = 1) const {
    server_->Signal(SIGHUP);
    EXPECT_TRUE(Eventually([&] { return Count(line) == count; })) << server_->log();
  }
  int Count(const std::string& line) const {
    const std::string log = server_->log();
    int found = 0;
    for (size_t at = 0; (at = log.find(line, at)) != std::string::npos; ++at) ++found;
    return found;
  }

  // Names of the models, the default with a star.
  std::vector<std::string> Listed() const {
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    const grpc::Status status = client_->stub().ListModels(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> names;
    for (const v1::Model& model : response.models()) names.push_back(model.name());
    return names;
  }
  grpc::Status Predict(const std::string& context) const {
    return client_->Predict(MakePredict(context, RandomRows(2, 3, 1))).status;
  }

  const TempFolder folder_;
  const std::string models_ = folder_ / "models";
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(ModelsTest, AFolderOfModelsIsServedAsItIsAtEachReload) {
  EXPECT_THAT(Listed(), ElementsAre("models/first"));
  ASSERT_TRUE(client_->Register("old", RandomRows(20, 3, 1)).ok());
  EXPECT_TRUE(Predict("old").ok());

  // The new one comes first by its name, and so is the default.
  Put("another", 2);
  Reload("info reloaded");
  EXPECT_THAT(Listed(), ElementsAre("models/another", "models/first"));
  ASSERT_TRUE(client_->Register("new", RandomRows(20, 3, 1)).ok());
  EXPECT_TRUE(Predict("new").ok());
  EXPECT_TRUE(Predict("old").ok());

  Take("first");
  Reload("info reloaded", 2);
  EXPECT_THAT(Listed(), ElementsAre("models/another"));
  const grpc::Status refused = Predict("old");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("'first', which the server does not serve"));
  EXPECT_TRUE(Predict("new").ok());
  EXPECT_TRUE(Eventually(
      [&] { return Count("the weights of the removed model 'first' were freed") == 1; }));

  Put("first", 1);
  Reload("info reloaded", 3);
  EXPECT_TRUE(Predict("old").ok());
  server_->Terminate();
}

TEST_F(ModelsTest, AModelWhoseFilesHaveChangedIsRefusedAndTheOldOneStays) {
  ASSERT_TRUE(client_->Register("data", RandomRows(20, 3, 1)).ok());
  const v1::PredictRequest request = MakePredict("data", RandomRows(2, 3, 1));
  const auto before = client_->Predict(request);
  ASSERT_TRUE(before.ok());
  Put("first", 2);
  Put("second", 3);
  Reload("error reload_rejected");
  server_->ExpectLog("have changed while it is served");
  EXPECT_THAT(Listed(), ElementsAre("models/first"));
  const auto after = client_->Predict(request);
  ASSERT_TRUE(after.ok());
  EXPECT_TRUE(SameBits(before.value, after.value));
  server_->Terminate();
}

TEST_F(ModelsTest, AStreamOfARemovedModelFinishesAsIfNothingHadHappened) {
  ASSERT_TRUE(client_->Register("data", RandomRows(200, 3, 1)).ok());
  v1::SampleRequest request = MakeSample("data", RandomRows(300, 3, 4), 512, 8);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  const Samples expected = client_->Sample(request);
  ASSERT_TRUE(expected.complete());
  SampleStream stream(client_->stub(), request);
  ASSERT_TRUE(stream.ReadOne());
  Put("second", 2);
  Take("first");
  Reload("model_removed model=first");
  EXPECT_EQ(Predict("data").error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Count("were freed"), 0) << "the stream was over too soon: nothing was tested";
  EXPECT_EQ(Difference(stream.Finish(), expected), "");
  EXPECT_TRUE(Eventually([&] { return Count("were freed") == 1; }));
  server_->Terminate();
}

}  // namespace
}  // namespace chorale::end_to_end
