// Known totals: calls of the client against a fake server, and resampling.
#include "client/cpp/path_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/client/cpp/client_fixture.h"
#include "tests/client/cpp/fake_samples.h"

namespace chorale::client {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

v1::KnownTotals Totals(const std::vector<double>& lower, const std::vector<double>& upper) {
  v1::KnownTotals totals;
  totals.mutable_lower()->Add(lower.begin(), lower.end());
  totals.mutable_upper()->Add(upper.begin(), upper.end());
  return totals;
}

TEST_F(ClientTest, WeightsComeWithTheSummary) {
  Register("t");
  SampleOptions options{.path_count = 5, .seed = 7, .first_path = 2};
  options.group_sizes = {2, 4};
  options.known_totals = Totals({12, -kInfinity}, {12, 40});
  const auto samples = client_->Sample("t", MakeRows(6), options);
  ASSERT_TRUE(samples.ok()) << samples.status();
  const v1::SampleRequest sent = service().last_sample();
  EXPECT_THAT(sent.known_totals().lower(), ElementsAre(12, -kInfinity));
  EXPECT_THAT(sent.known_totals().upper(), ElementsAre(12, 40));
  ASSERT_THAT(samples->summary.total_log_weights(), SizeIs(10));
  EXPECT_EQ(samples->summary.total_log_weights(3), FakeLogWeight(3, 1));
  EXPECT_THAT(samples->summary.total_effective_sample_sizes(), SizeIs(2));

  options.known_totals.Clear();
  ASSERT_TRUE(client_->Sample("t", MakeRows(6), options).ok());
  EXPECT_FALSE(service().last_sample().has_known_totals());
}

TEST_F(ClientTest, AServerThatIgnoresTotalsIsTooOld) {
  Register("t");
  service().set_ignores_totals(true);
  const auto samples =
      client_->Sample("t", MakeRows(3), {.path_count = 2, .known_totals = Totals({1}, {1})});
  EXPECT_TRUE(absl::IsUnimplemented(samples.status())) << samples.status();
  EXPECT_THAT(std::string(samples.status().message()), HasSubstr("known totals"));
}

TEST(PathWeightsTest, TheNumberOfWeightsIsChecked) {
  v1::SampleSummary summary;
  EXPECT_TRUE(CheckPathWeights(summary, {}, 3, 1).ok());
  for (int i = 0; i < 6; ++i) summary.add_total_log_weights(0);
  summary.add_total_effective_sample_sizes(3);
  EXPECT_TRUE(absl::IsDataLoss(CheckPathWeights(summary, Totals({1, 2}, {1, 2}), 3, 2)));
  summary.add_total_effective_sample_sizes(3);
  EXPECT_TRUE(CheckPathWeights(summary, Totals({1, 2}, {1, 2}), 3, 2).ok());
  EXPECT_TRUE(absl::IsDataLoss(CheckPathWeights(summary, Totals({1, 2}, {1, 2}), 2, 2)));
}

// Paths of groups of 2 and 1 rows in random orders. The value of path p at row r is 10 p + r.
Samples Weighted(const std::vector<double>& weights) {
  Samples samples;
  samples.first_path = 50;
  samples.path_count = static_cast<int64_t>(weights.size()) / 2;
  samples.row_count = samples.step_count = 3;
  samples.first_steps = {0, 2};
  for (int64_t path = 0; path < samples.path_count; ++path) {
    for (int row = 0; row < 3; ++row) {
      samples.values.push_back(10.0 * static_cast<double>(path) + row);
      samples.log_densities.push_back(-samples.values.back());
    }
    const bool swapped = path % 2 == 1;
    for (const int row : {swapped ? 1 : 0, swapped ? 0 : 1, 2}) samples.rows_by_step.push_back(row);
  }
  for (const double weight : weights) samples.summary.add_total_log_weights(std::log(weight));
  samples.summary.set_seed(9);
  return samples;
}

TEST(ResampleTest, EachGroupHasItsPathsAsOftenAsTheirWeightsSay) {
  // The weights of the first group are 1, 0, 2, 5; those of the second 1, 1, 1, 1.
  const Samples samples = Weighted({1, 1, 0, 1, 2, 1, 5, 1});
  const auto result = Resample(samples, std::vector<int32_t>{2, 1}, 16, 3);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->path_count, 16);
  EXPECT_EQ(result->first_path, 0);
  EXPECT_EQ(result->summary.seed(), 9u);
  EXPECT_THAT(result->summary.total_log_weights(), IsEmpty());
  std::vector<int> counts(8);
  for (int64_t path = 0; path < 16; ++path) {
    const double* const values = result->values.data() + path * 3;
    EXPECT_EQ(values[1], values[0] + 1) << "rows of a group stay together";
    const auto first = static_cast<int64_t>(values[0]) / 10;
    ++counts[first];
    ++counts[4 + static_cast<int>(values[2]) / 10];
    EXPECT_EQ(result->log_densities[path * 3], -values[0]);
    EXPECT_EQ(result->rows_by_step[path * 3], first % 2);
    EXPECT_EQ(result->rows_by_step[path * 3 + 2], 2);
  }
  EXPECT_THAT(counts, ElementsAre(2, 0, 4, 10, 4, 4, 4, 4));
}

TEST(ResampleTest, APathOfAllWeightIsEachPath) {
  const auto result = Resample(Weighted({0, 0, 1, 1, 0, 0}), std::vector<int32_t>{2, 1}, 50, 3);
  ASSERT_TRUE(result.ok()) << result.status();
  for (int64_t path = 0; path < 50; ++path) EXPECT_EQ(result->values[path * 3], 10);
}

TEST(ResampleTest, TinyWeightsAreNotLost) {
  Samples samples = Weighted({1, 1, 1, 1});
  for (double& weight : *samples.summary.mutable_total_log_weights()) weight -= 5000;
  const auto result = Resample(samples, std::vector<int32_t>{2, 1}, 2, 3);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->values, ElementsAre(0, 1, 2, 10, 11, 12));
}

TEST(ResampleTest, WithoutAnyWeightThereAreNoPaths) {
  const auto result = Resample(Weighted({1, 0, 1, 0}), std::vector<int32_t>{2, 1}, 2, 3);
  EXPECT_TRUE(absl::IsFailedPrecondition(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("of group 1 is not possible"));
}

}  // namespace
}  // namespace chorale::client
