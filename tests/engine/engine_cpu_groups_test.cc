// Groups of query rows over the real CPU backend: a call with groups returns what a call for each
// group returns.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/cpu_engine_fixture.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

constexpr int64_t kRows = 12;

class EngineCpuGroupsTest : public CpuEngineFixture {
 protected:
  // The request for the rows of one group. The known values of `request` are one set.
  template <typename Request>
  Request OfGroup(const Request& request, size_t group) const {
    int32_t first = 0;
    for (size_t g = 0; g < group; ++g) first += request.group_sizes[g];
    const int32_t end = first + request.group_sizes[group];
    Request part = request;
    part.group_sizes.clear();
    for (Column& column : part.query_rows.columns) {
      column.numbers.assign(column.numbers.begin() + first, column.numbers.begin() + end);
    }
    part.known = {};
    for (int64_t i = 0; i < request.known.count(); ++i) {
      const int32_t row = request.known.rows[i];
      if (row < first || row >= end) continue;
      part.known.rows.push_back(row - first);
      part.known.values.push_back(request.known.values[i]);
    }
    return part;
  }
  // Groups of 3, 4, 3 and 2 rows, of which rows 4, 8 and 3 are known.
  template <typename Request>
  Request WithGroups() const {
    auto request = MakeRequest<Request>(kRows);
    request.group_sizes = {3, 4, 3, 2};
    request.known = {{4, 8, 3}, {0.7, -1.2, 1.5}};
    return request;
  }
};

INSTANTIATE_TEST_SUITE_P(RowEncoders, EngineCpuGroupsTest,
                         ::testing::Values("feature_mean", "cell_attention"));

TEST_P(EngineCpuGroupsTest, DensitiesAreThoseOfACallForEachGroup) {
  auto request = WithGroups<LogDensityRequest>();
  request.vectors = 2;
  for (int64_t i = 0; i < 2 * 9; ++i) request.y.push_back(static_cast<double>(i % 7) / 3 - 1);
  request.want_terms = true;
  const LogDensityResult result = LogDensity(request);
  int64_t first = 0;  // of the rows that are not known
  for (size_t group = 0; group < 4; ++group) {
    LogDensityRequest alone = OfGroup(request, group);
    const int64_t unknown = alone.query_rows.rows() - alone.known.count();
    alone.y.clear();
    for (int64_t b = 0; b < 2; ++b) {
      const auto y = request.y.begin() + b * 9 + first;
      alone.y.insert(alone.y.end(), y, y + unknown);
    }
    const LogDensityResult expected = LogDensity(alone);
    for (int64_t b = 0; b < 2; ++b) {
      EXPECT_EQ(result.log_density.at(b * 4 + group), expected.log_density.at(b)) << group;
      for (int64_t u = 0; u < unknown; ++u) {
        EXPECT_EQ(result.terms.at(b * 9 + first + u), expected.terms.at(b * unknown + u));
      }
    }
    const double known = alone.known.count() == 0 ? 0 : expected.known_log_densities.at(0);
    EXPECT_EQ(result.known_log_densities.at(group), known);
    first += unknown;
  }
}

TEST_P(EngineCpuGroupsTest, PredictionsAreThoseOfACallForEachGroup) {
  auto request = WithGroups<PredictRequest>();
  request.quantiles = {0.1, 0.9};
  const PredictResult result = Predict(request);
  ASSERT_EQ(result.mean.size(), 9u);
  size_t u = 0;
  for (size_t group = 0; group < 4; ++group) {
    const PredictRequest alone = OfGroup(request, group);
    const PredictResult expected = Predict(alone);
    for (size_t i = 0; i < expected.mean.size(); ++i, ++u) {
      EXPECT_NEAR(result.mean[u], expected.mean[i], 1e-6) << group;
      EXPECT_NEAR(result.std[u], expected.std[i], 1e-6) << group;
      EXPECT_NEAR(result.quantiles[2 * u + 1], expected.quantiles[2 * i + 1], 1e-6) << group;
    }
  }
  EXPECT_EQ(u, 9u);
}

// The draws of the first group are those of a call for this group. The log-densities of all draws
// are those that LogDensity computes for them.
TEST_P(EngineCpuGroupsTest, PathsAreDrawnFromTheDistributionOfTheirGroup) {
  constexpr int64_t kPaths = 40;  // more than a tile
  auto request = WithGroups<SampleRequest>();
  request.paths = kPaths;
  request.seed = 5;
  request.snapping = Snapping::kOff;
  request.want_log_densities = true;
  const auto recorder = Sample(request);
  const std::vector<double> values = recorder->ByTarget(kPaths, kRows);
  const auto first_group = Sample(OfGroup(request, 0))->ByTarget(kPaths, 3);
  auto density = WithGroups<LogDensityRequest>();
  density.vectors = kPaths;
  for (int64_t p = 0; p < kPaths; ++p) {
    for (int64_t row = 0; row < kRows; ++row) {
      const double value = values[p * kRows + row];
      if (row < 3) EXPECT_EQ(value, first_group[p * 3 + row]);
      const bool known = row == 4 || row == 8 || row == 3;
      EXPECT_EQ(std::isnan(value), known);
      if (!known) density.y.push_back(value);
    }
  }
  const LogDensityResult scored = LogDensity(density);
  const std::vector<double> drawn = recorder->LogDensityOfPaths(kPaths);
  for (int64_t p = 0; p < kPaths; ++p) {
    double sum = 0;
    for (int64_t group = 0; group < 4; ++group) sum += scored.log_density[p * 4 + group];
    EXPECT_NEAR(drawn[p], sum, 1e-4) << p;
  }
  for (size_t group = 0; group < 4; ++group) {
    EXPECT_NEAR(recorder->summary().known_log_densities.at(group),
                scored.known_log_densities.at(group), 1e-4);
  }
}

}  // namespace
}  // namespace chorale::testing
