// A server that loses its device exits, so that its supervisor restarts it. Contexts that were
// registered are then served again.
#include <filesystem>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DeviceLossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(CHORALE_CUDA_EMULATED_LIBRARY).empty()) {
      GTEST_SKIP() << "built without the emulator";
    }
    server_ = Start();
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
    ASSERT_TRUE(client_->Register("data", RandomRows(20, 3, 1)).ok());
  }

  std::unique_ptr<ServerProcess> Start() const {
    return ServerProcess::Start(
        {.models = {GoldenFolder("golden_tiny")},
         .data_dir = folder_ / "data",
         .flags = {"--backend=cuda", "--context_pool_mib=8", "--buffer_pool_mib=16",
                   "--host_context_pool_mib=8"},
         .environment = {std::string("CHORALE_CUDA_LIBRARY=") + CHORALE_CUDA_EMULATED_LIBRARY,
                         "CHORALE_EMULATOR_LOST=" + folder_ / "lost"}});
  }

  static v1::SampleRequest Session(int64_t query_rows) {
    v1::SampleRequest request = MakeSample("data", RandomRows(query_rows, 3, 2), 3, 5);
    request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
    return request;
  }

  void LoseTheDevice() const { WriteFile(folder_ / "lost", ""); }

  // With 1 and the reason in the log.
  void ExpectEnd() const {
    EXPECT_TRUE(Eventually([this] { return Health(server_->address()) != "SERVING"; }));
    EXPECT_EQ(server_->ExitCode(), 1);
    EXPECT_THAT(server_->log(), AllOf(HasSubstr("backend_failed reason="),
                                      HasSubstr("CUDA error 719, the device is lost")));
  }

  const TempFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(DeviceLossTest, EndsTheServerAndARestartServesAgain) {
  const Samples expected = client_->Sample(Session(4));
  ASSERT_EQ(Difference(expected, expected), "");

  SampleStream stream(client_->stub(), Session(1'000));
  ASSERT_TRUE(stream.ReadOne());
  LoseTheDevice();
  const Samples broken = stream.Finish();
  EXPECT_EQ(broken.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(broken.status.error_message(), HasSubstr("the device failed"));
  EXPECT_EQ(client_->Sample(Session(4)).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  ExpectEnd();

  std::filesystem::remove(folder_ / "lost");
  server_ = Start();
  ASSERT_NE(server_, nullptr);
  client_ = std::make_unique<ApiClient>(server_->address());
  EXPECT_EQ(Difference(client_->Sample(Session(4)), expected), "");
  client_.reset();
  server_->Terminate();
}

TEST_F(DeviceLossTest, WhileThereIsNothingToDo) {
  LoseTheDevice();
  ExpectEnd();
}

TEST_F(DeviceLossTest, WhileAContextIsEncoded) {
  LoseTheDevice();
  EXPECT_EQ(client_->Warm("data").status.error_code(), grpc::StatusCode::UNAVAILABLE);
  ExpectEnd();
}

}  // namespace
}  // namespace chorale::end_to_end
