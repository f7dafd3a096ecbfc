// How samples are delivered: some paths of a seed, whole paths, and float32.
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_server_fixture.h"

namespace chorale::end_to_end {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kSeed = 3;
constexpr int64_t kRows = 24;

class DeliveryTest : public ModelServerFixture {
 protected:
  static v1::SampleRequest RequestOf(int64_t paths) {
    Rows rows = RandomRows(kRows, 2, 5);
    rows.y.clear();
    v1::SampleRequest request = MakeSample("c", rows, paths, kSeed);
    request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
    return request;
  }

  // Expects that the paths from 50 alone have the bits that they have in a call for all.
  static void ExpectTheSamePaths(v1::SampleRequest request) {
    const Samples all = client().Sample(request);
    ASSERT_TRUE(all.complete()) << all.status.error_message() << all.problem;
    request.set_first_path(50);
    request.set_path_count(request.path_count() - 50);
    Samples expected = all;
    expected.paths -= 50;
    for (auto* numbers : {&expected.values, &expected.log_densities}) {
      if (!numbers->empty()) numbers->erase(numbers->begin(), numbers->begin() + 50 * kRows);
    }
    expected.order.erase(expected.order.begin(), expected.order.begin() + 50 * kRows);
    EXPECT_EQ(Difference(client().Sample(request), expected), "");
  }

  static void ExpectRefused(const v1::SampleRequest& request, const std::string& field) {
    const Samples samples = client().Sample(request);
    EXPECT_EQ(samples.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(DetailsOf(samples.status).fields, ElementsAre(field));
  }
};

TEST_F(DeliveryTest, PathsHaveTheValuesOfACallForAll) {
  v1::SampleRequest request = RequestOf(100);
  ExpectTheSamePaths(request);
  request.set_include_log_densities(true);
  request.set_order(v1::SampleRequest::ORDER_RANDOM_PER_PATH);
  ExpectTheSamePaths(request);
  for (const int32_t size : {3, 13, 8}) request.add_group_sizes(size);
  ExpectTheSamePaths(request);
}

TEST_F(DeliveryTest, WholePathsHaveTheSameValues) {
  v1::SampleRequest request = RequestOf(300);
  const Samples expected = client().Sample(request);
  request.set_whole_paths(true);
  const Samples whole = client().Sample(request);
  EXPECT_EQ(Difference(whole, expected), "");
  EXPECT_EQ(whole.fewest_steps, kRows);
}

TEST_F(DeliveryTest, Float32ValuesAreRoundedAndHaveHalfTheBytes) {
  v1::SampleRequest request = RequestOf(1000);
  Samples expected = client().Sample(request);
  request.set_float32_values(true);
  const Samples rounded = client().Sample(request);
  for (double& value : expected.values) value = static_cast<float>(value);
  EXPECT_EQ(Difference(rounded, expected), "");
  request.set_whole_paths(true);
  const Samples whole = client().Sample(request);
  request.set_float32_values(false);
  const Samples wide = client().Sample(request);
  std::printf("  bytes of 1,000 x 24 values: %ld; whole paths %ld; float32 %ld; both %ld\n",
              static_cast<long>(expected.bytes), static_cast<long>(wide.bytes),
              static_cast<long>(rounded.bytes), static_cast<long>(whole.bytes));
  constexpr int64_t kValues = 1000 * kRows;
  EXPECT_GE(wide.bytes, 8 * kValues);
  EXPECT_LE(wide.bytes, 8 * kValues + kValues / 8);
  EXPECT_GE(whole.bytes, 4 * kValues);
  EXPECT_LE(whole.bytes, 4 * kValues + kValues / 8);
  EXPECT_LT(rounded.bytes, 0.6 * static_cast<double>(expected.bytes));
}

TEST_F(DeliveryTest, InvalidFirstPathsAreNamed) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  v1::SampleRequest request = RequestOf(2);
  request.set_first_path(-1);
  ExpectRefused(request, "first_path");
  request.set_first_path(kMost - 1);
  ExpectRefused(request, "first_path");
  request.set_first_path(kMost - 2);
  EXPECT_TRUE(client().Sample(request).complete());
  request.clear_seed();
  ExpectRefused(request, "seed");
}

}  // namespace
}  // namespace chorale::end_to_end
