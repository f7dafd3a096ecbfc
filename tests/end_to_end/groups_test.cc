// Groups of query rows: one call returns what a call for each group returns.
#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_server_fixture.h"

namespace chorale::end_to_end {
namespace {

constexpr uint64_t kSeed = 3;

class GroupsTest : public ModelServerFixture {
 protected:
  // Rows [first, first + count) of the query rows.
  static Rows Part(const Rows& rows, int64_t first, int64_t count) {
    const auto begin = rows.x.begin() + first * rows.features;
    return {.features = rows.features, .x = {begin, begin + count * rows.features}, .y = {}};
  }
};

TEST_F(GroupsTest, SamplesAndDensitiesOfEachGroup) {
  constexpr int64_t kPaths = 40;
  const std::vector<int64_t> sizes = {3, 1, 4, 3};
  Rows rows = RandomRows(11, 2, 5);
  rows.y.clear();
  v1::SampleRequest request = MakeSample("c", rows, kPaths, kSeed);
  for (const int64_t size : sizes) request.add_group_sizes(static_cast<int32_t>(size));
  request.set_include_log_densities(true);
  const Samples samples = client().Sample(request);
  ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;

  v1::LogDensityRequest all = MakeLogDensity("c", rows, samples.values);
  *all.mutable_group_sizes() = request.group_sizes();
  const auto densities = client().LogDensity(all);
  ASSERT_TRUE(densities.ok()) << densities.status.error_message();
  ASSERT_EQ(densities.value.log_densities_size(), kPaths * 4);
  int64_t first = 0;
  for (int64_t group = 0; group < 4; ++group) {
    const Rows part = Part(rows, first, sizes[group]);
    std::vector<double> values;
    std::vector<double> sums;
    for (int64_t path = 0; path < kPaths; ++path) {
      double sum = 0;
      for (int64_t row = first; row < first + sizes[group]; ++row) {
        values.push_back(samples.values[path * 11 + row]);
        sum += samples.log_densities[path * 11 + row];
      }
      sums.push_back(sum);
    }
    if (group == 0) EXPECT_EQ(client().Sample(MakeSample("c", part, kPaths, kSeed)).values, values);
    const auto alone = client().LogDensity(MakeLogDensity("c", part, values));
    ASSERT_TRUE(alone.ok()) << alone.status.error_message();
    for (int64_t path = 0; path < kPaths; ++path) {
      const double density = densities.value.log_densities(path * 4 + group);
      EXPECT_NEAR(density, alone.value.log_densities(path), 1e-4);
      EXPECT_NEAR(density, sums[path], 1e-4);
    }
    first += sizes[group];
  }
}

// As many groups as a call can have rows. Each group has draws of its own.
TEST_F(GroupsTest, ManyGroups) {
  constexpr int64_t kGroups = 4'096;
  Rows one = RandomRows(4, 2, 5);
  Rows rows{.features = 2, .x = {}, .y = {}};
  for (int64_t g = 0; g < kGroups; ++g) rows.x.insert(rows.x.end(), one.x.begin(), one.x.end());
  v1::SampleRequest request = MakeSample("c", rows, 2, kSeed);
  for (int64_t g = 0; g < kGroups; ++g) request.add_group_sizes(4);
  const Samples samples = client().Sample(request);
  ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
  // The groups are equal, so that their first values are draws of one distribution.
  std::vector<double> first(2 * kGroups);
  for (int64_t i = 0; i < 2 * kGroups; ++i) first[i] = samples.values[i * 4];
  v1::PredictRequest predict =
      MakePredict("c", {.features = 2, .x = {one.x[0], one.x[1]}, .y = {}});
  const auto predicted = client().Predict(predict);
  ASSERT_TRUE(predicted.ok()) << predicted.status.error_message();
  double sum = 0, squares = 0;
  for (const double value : first) {
    sum += value;
    squares += value * value;
  }
  const double mean = sum / static_cast<double>(first.size());
  const double std = std::sqrt(squares / static_cast<double>(first.size()) - mean * mean);
  EXPECT_NEAR(mean, predicted.value.means(0),
              5 * predicted.value.stds(0) / std::sqrt(static_cast<double>(first.size())));
  EXPECT_NEAR(std / predicted.value.stds(0), 1, 0.1);
}

}  // namespace
}  // namespace chorale::end_to_end
