// How samples are delivered: some paths of a seed, whole paths, float32, and calls that end early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"
#include "tests/client/cpp/client_fixture.h"
#include "tests/support/eventually.h"

namespace chorale::client {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPaths = 30;

class ClientDeliveryTest : public ClientTest {
 protected:
  ClientDeliveryTest() {
    Register("t");
    all_ = client_->Sample("t", MakeRows(kRows), Options()).value();
  }

  static SampleOptions Options() {
    return {.path_count = kPaths,
            .seed = 7,
            .order = RowOrder::kRandomPerPath,
            .step_densities = StepDensities::kInclude};
  }

  // Expects the values, densities and orders of the paths [begin, end) of all_.
  void ExpectPaths(const Samples& samples, int64_t begin, int64_t end) const {
    EXPECT_EQ(samples.first_path, begin);
    EXPECT_EQ(samples.path_count, end - begin);
    EXPECT_EQ(samples.row_count, kRows);
    EXPECT_EQ(samples.step_count, kRows);
    const auto part = [&](const auto& all) {
      return std::vector(all.begin() + begin * kRows, all.begin() + end * kRows);
    };
    EXPECT_EQ(samples.values, part(all_.values));
    EXPECT_EQ(samples.log_densities, part(all_.log_densities));
    EXPECT_EQ(samples.rows_by_step, part(all_.rows_by_step));
  }

  void ExpectUnimplemented(const SampleOptions& options, const std::string& field) {
    const auto on_block = [](const v1::SampleBlock&) { return absl::OkStatus(); };
    for (const absl::Status& status :
         {client_->Sample("t", MakeRows(kRows), options).status(),
          client_->SampleStream("t", MakeRows(kRows), options, on_block).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(field, ": ")));
    }
  }

  Samples all_;
};

TEST_F(ClientDeliveryTest, ACallForSomePathsReturnsThese) {
  SampleOptions options = Options();
  options.first_path = 13;
  options.path_count = 5;
  const auto samples = client_->Sample("t", MakeRows(kRows), options);
  ASSERT_TRUE(samples.ok()) << samples.status();
  ExpectPaths(*samples, 13, 18);
  EXPECT_EQ(service().last_sample().first_path(), 13);
}

TEST_F(ClientDeliveryTest, AFirstPathRequiresASeed) {
  SampleOptions options = Options();
  options.seed.reset();
  options.first_path = 13;
  const int calls = service().call_count();
  absl::Status status = client_->Sample("t", MakeRows(kRows), options).status();
  EXPECT_EQ(status, absl::InvalidArgumentError("seed: is required, because first_path is 13"));
  options.first_path = -1;
  status = client_->ValidateSample("t", MakeRows(kRows), options).status();
  EXPECT_EQ(status, absl::InvalidArgumentError("first_path: -1, must not be negative"));
  EXPECT_EQ(service().call_count(), calls);
}

TEST_F(ClientDeliveryTest, KnownValuesOfEachPathAreThoseOfTheCall) {
  SampleOptions options{.path_count = 2, .seed = 7, .first_path = 13};
  options.known.add_rows(1);
  for (const double value : {1.5, 2.5}) options.known.add_values(value);
  const auto samples = client_->Sample("t", MakeRows(3), options);
  ASSERT_TRUE(samples.ok()) << samples.status();
  for (int64_t path = 0; path < 2; ++path) {
    const double known = options.known.values(static_cast<int>(path));
    EXPECT_EQ(samples->values[3 * path + 1], known);
    EXPECT_EQ(samples->values[3 * path], SampleValue(Score(0) + known, 13 + path, 7));
  }
}

TEST_F(ClientDeliveryTest, PathsOfGroupsAreThoseOfTheSeed) {
  SampleOptions options{.path_count = kPaths, .seed = 7, .group_sizes = {2, kRows - 2}};
  all_ = client_->Sample("t", MakeRows(kRows), options).value();
  options.first_path = 11;
  options.path_count = 8;
  const auto samples = client_->Sample("t", MakeRows(kRows), options);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->first_path, 11);
  EXPECT_TRUE(
      std::equal(samples->values.begin(), samples->values.end(), all_.values.begin() + 11 * kRows));
}

TEST_F(ClientDeliveryTest, ABlockOfWholePathsHasAllSteps) {
  SampleOptions options = Options();
  options.whole_paths = true;
  int64_t paths = 0;
  const auto on_block = [&](const v1::SampleBlock& block) {
    EXPECT_EQ(block.step_count(), kRows);
    paths += block.path_count();
    return absl::OkStatus();
  };
  EXPECT_TRUE(client_->SampleStream("t", MakeRows(kRows), options, on_block).ok());
  EXPECT_EQ(paths, kPaths);
  ExpectPaths(client_->Sample("t", MakeRows(kRows), options).value(), 0, kPaths);
}

TEST_F(ClientDeliveryTest, Float32ValuesAreRounded) {
  SampleOptions options = Options();
  options.precision = Precision::kFloat32;
  for (double& value : all_.values) value = static_cast<float>(value);
  for (double& density : all_.log_densities) density = static_cast<float>(density);
  ExpectPaths(client_->Sample("t", MakeRows(kRows), options).value(), 0, kPaths);
  const auto on_block = [&](const v1::SampleBlock& block) {
    EXPECT_TRUE(block.values().empty());
    return absl::OkStatus();
  };
  EXPECT_TRUE(client_->SampleStream("t", MakeRows(kRows), options, on_block).ok());
}

TEST_F(ClientDeliveryTest, ServersThatIgnoreTheDeliveryAreTooOld) {
  service().set_ignores_delivery(true);
  SampleOptions options = Options();
  options.first_path = 1;
  ExpectUnimplemented(options, "first_path");
  options.group_sizes = {2, kRows - 2};
  ExpectUnimplemented(options, "first_path");
  options = Options();
  options.whole_paths = true;
  ExpectUnimplemented(options, "whole_paths");
  options.group_sizes = {2, kRows - 2};
  ExpectUnimplemented(options, "whole_paths");
  // Float64 values serve as well.
  options = Options();
  options.precision = Precision::kFloat32;
  ExpectPaths(client_->Sample("t", MakeRows(kRows), options).value(), 0, kPaths);
}

TEST_F(ClientDeliveryTest, PathsComeInTheirOrderAsSoonAsTheyAreComplete) {
  SampleOptions options = Options();
  Samples drawn;
  int parts = 0;
  options.on_paths = [&](const Samples& paths) {
    EXPECT_EQ(paths.first_path, drawn.path_count);
    EXPECT_EQ(paths.summary.seed(), 7u);
    drawn.Append(paths);
    ++parts;
    return absl::OkStatus();
  };
  ASSERT_TRUE(client_->Sample("t", MakeRows(kRows), options).ok());
  ExpectPaths(drawn, 0, kPaths);
  EXPECT_GT(parts, 1);
}

// By the server, a proxy, the deadline or the caller.
TEST_F(ClientDeliveryTest, ACallThatEndsEarlyIsContinued) {
  service().set_blocks_in_order(true);
  service().set_blocks_before_fault(8);  // two tiles of 4 paths and 7 rows, and a part of the next
  for (const StreamFault fault : {StreamFault::kBreakAfterFirstBlock,
                                  StreamFault::kCancelAfterFirstBlock, StreamFault::kHang}) {
    service().set_stream_fault(fault);
    SampleOptions options = Options();
    Samples drawn;
    Cancellation cancellation;
    options.on_paths = [&](const Samples& paths) {
      drawn.Append(paths);
      if (fault == StreamFault::kHang && drawn.path_count == 8) cancellation.Cancel();
      return absl::OkStatus();
    };
    const auto samples =
        client_->Sample("t", MakeRows(kRows), options, {.cancellation = &cancellation});
    EXPECT_EQ(samples.status().code(), fault == StreamFault::kHang ? absl::StatusCode::kCancelled
                                                                   : absl::StatusCode::kUnavailable)
        << samples.status();
    ASSERT_EQ(drawn.path_count, 8);
    service().set_stream_fault(StreamFault::kNone);
    options = Options();
    options.first_path = 8;
    options.path_count = kPaths - 8;
    drawn.Append(client_->Sample("t", MakeRows(kRows), options).value());
    ExpectPaths(drawn, 0, kPaths);
  }
}

TEST_F(ClientDeliveryTest, ThePathsBeforeTheDeadlineRemain) {
  service().set_blocks_in_order(true);
  service().set_blocks_before_fault(3);
  service().set_stream_fault(StreamFault::kHang);
  SampleOptions options = Options();
  Samples drawn;
  options.on_paths = [&](const Samples& paths) {
    drawn.Append(paths);
    return absl::OkStatus();
  };
  absl::Duration timeout = absl::Milliseconds(200);
  // Until it is enough for the blocks to arrive.
  for (; drawn.path_count == 0 && timeout < kPatience; timeout *= 2) {
    EXPECT_EQ(client_->Sample("t", MakeRows(kRows), options, {.timeout = timeout}).status().code(),
              absl::StatusCode::kDeadlineExceeded);
  }
  ExpectPaths(drawn, 0, 4);
}

TEST_F(ClientDeliveryTest, RefusingPathsCancelsTheCall) {
  SampleOptions options = Options();
  options.on_paths = [](const Samples&) { return absl::AbortedError("the disk is full"); };
  EXPECT_EQ(client_->Sample("t", MakeRows(kRows), options).status(),
            absl::AbortedError("the disk is full"));
}

}  // namespace
}  // namespace chorale::client
