// The time of day jumps while a server or a client runs: no call notices.
#include "base/clock.h"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/client/cli/program.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/reserved_port.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {
namespace {

// Libraries may take the new time some time after the jump, in steps of their own.
constexpr absl::Duration kWatched = absl::Milliseconds(1500);

// Less than the time jumps, and more than a call takes on a busy machine.
constexpr std::chrono::seconds kLimit(25);

class ClockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer's library must be the first to be loaded";
    Shift(0);
    server_ = ServerProcess::Start({.models = {GoldenFolder("golden_tiny")},
                                    .flags = {"--drain_timeout=10m"},
                                    .environment = {"LD_PRELOAD=" CHORALE_CLOCK_SHIFT_LIBRARY,
                                                    "CHORALE_CLOCK_SHIFT_FILE=" + file_}});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
    ASSERT_TRUE(client_->Register("data", RandomRows(200, 3, 1)).ok());
  }

  void Shift(int64_t seconds) const {
    // In place: the server has the file mapped.
    std::fstream file(file_, std::ios::binary | std::ios::in | std::ios::out);
    if (!file.is_open()) file.open(file_, std::ios::binary | std::ios::out);
    file.write(reinterpret_cast<const char*>(&seconds), sizeof(seconds));
  }

  grpc::Status PredictWithin(std::chrono::seconds limit) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    v1::PredictResponse response;
    return client_->stub().Predict(&context, MakePredict("data", RandomRows(2, 3, 2)), &response);
  }

  TempFolder folder_;
  const std::string file_ = folder_.path() + "/shift";
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(ClockTest, NoCallWithADeadlineFailsWhenTheTimeJumps) {
  ASSERT_TRUE(PredictWithin(kLimit).ok());
  int64_t calls = 0;
  for (const int64_t shift : {-30, 0, 30, -3600, 86'400, 0}) {
    SCOPED_TRACE(absl::StrCat("shifted by ", shift, " s"));
    Shift(shift);
    const absl::Time end = Clock::Real()->Now() + kWatched;
    while (Clock::Real()->Now() < end) {
      const grpc::Status status = PredictWithin(kLimit);
      ASSERT_TRUE(status.ok()) << status.error_message() << " after " << calls << " calls";
      ++calls;
    }
  }
  EXPECT_GT(calls, 6);
}

TEST_F(ClockTest, AJumpNeitherCutsADrainShortNorProlongsIt) {
  v1::SampleRequest request = MakeSample("data", RandomRows(300, 3, 4), 128, 8);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  SampleStream stream(client_->stub(), request);
  ASSERT_TRUE(stream.ReadOne());
  server_->Signal(SIGTERM);
  Shift(86'400);
  EXPECT_TRUE(stream.Finish().complete());
  Shift(-86'400);
  EXPECT_EQ(server_->ExitCode(), 0);
}

TEST_F(ClockTest, AJumpDoesNotProlongTheWaitOfAClient) {
  const ReservedPort nobody;
  const absl::Time start = Clock::Real()->Now();
  client::Program program(
      {CHORALE_PROGRAM, "ls", "--server", nobody.address(), "--connect-timeout", "3"},
      {"LD_PRELOAD=" CHORALE_CLOCK_SHIFT_LIBRARY, "CHORALE_CLOCK_SHIFT_FILE=" + file_},
      /*input=*/"");
  absl::SleepFor(absl::Seconds(1));
  Shift(-60);
  EXPECT_EQ(program.Wait().exit_code, 1);
  EXPECT_LT(Clock::Real()->Now() - start, absl::Seconds(30));
}

}  // namespace
}  // namespace chorale::end_to_end
