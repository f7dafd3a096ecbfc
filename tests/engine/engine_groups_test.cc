// Groups of query rows over the fake backend: each group has its own paths and results.
#include <cstdint>
#include <vector>

#include "base/error_details.h"
#include "engine/session/grouped_paths.h"
#include "engine/session/order_average.h"
#include "engine/session/query_groups.h"
#include "engine/session/random_key.h"
#include "gmock/gmock.h"
#include "tests/engine/engine_calls_fixture.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr double kRounding = 1e-9;

// Of 9 query rows in groups of 2, 3, 2 and 2, rows 3 and 8 are known.
class EngineGroupsTest : public EngineCallsFixture {
 protected:
  void AddGroups(RequestBase* request) const {
    request->group_sizes = kSizes;
    request->known.rows = kKnownRows;
    request->known.values = {0.5, -2};
  }
  // The log-density of each group's known values.
  std::vector<double> KnownDensities(double of_row_3, double of_row_8) const {
    return {0, LogDensityOf(of_row_3, 0, 3), 0, LogDensityOf(of_row_8, 0, 8)};
  }

  const std::vector<int32_t> kSizes = {2, 3, 2, 2};
  const std::vector<int32_t> kKnownRows = {3, 8};
  // Of each row: its group, and its position on the paths of the group.
  const std::vector<uint64_t> kGroup = {0, 0, 1, 1, 1, 2, 2, 3, 3};
  const std::vector<int64_t> kPosition = {0, 1, 1, 0, 2, 0, 1, 1, 0};
};

TEST_F(EngineGroupsTest, EachGroupHasPathsOfItsOwn) {
  SampleRequest request = SampleOf("c", 11, 9);
  AddGroups(&request);
  request.want_log_densities = true;
  const auto recorder = Sample(request);
  const uint64_t key = RandomKey(7, recorder->summary().source);
  const auto values = recorder->ByTarget(11, 9);
  const auto densities = recorder->LogDensityOfPaths(11);
  for (int64_t p = 0; p < 11; ++p) {
    double expected = 0;
    for (const int32_t row : {0, 1, 2, 4, 5, 6, 7}) {
      const float value = FakeValue(key, kGroup[row] << 32 | p, kPosition[row]);
      EXPECT_DOUBLE_EQ(values[p * 9 + row], transform_.ToUser(value)) << row;
      expected += LogDensityOf(transform_.ToUser(value), kPosition[row], row);
    }
    EXPECT_NEAR(densities[p], expected, 1e-6);  // of 7 values
  }
  EXPECT_EQ(recorder->values(), 11 * 7);
  EXPECT_THAT(recorder->summary().known_log_densities,
              Pointwise(DoubleNear(kRounding), KnownDensities(0.5, -2)));
  EXPECT_EQ(metrics_.values_of(WorkKind::kDecode), 77);
  for (const SampleBlock& block : recorder->blocks()) {
    EXPECT_EQ(block.first_path, 0);
    EXPECT_EQ(block.path_indices.size(), static_cast<size_t>(block.paths));
  }
}

TEST_F(EngineGroupsTest, OneGroupIsTheWholeTable) {
  SampleRequest request = SampleOf("c", 11, 3);
  const auto expected = Sample(request)->ByTarget(11, 3);
  request.group_sizes = {3};
  const auto recorder = Sample(request);
  EXPECT_EQ(recorder->ByTarget(11, 3), expected);
  for (const SampleBlock& block : recorder->blocks()) {
    EXPECT_EQ(block.path_indices.size(), static_cast<size_t>(block.paths));
    EXPECT_EQ(block.query_rows.size(), block.values.size());
  }
}

TEST_F(EngineGroupsTest, RandomOrdersStayInTheirGroup) {
  SampleRequest request = SampleOf("c", 6, 9);
  AddGroups(&request);
  request.order = RowOrder::kRandomPerPath;
  const auto recorder = Sample(request);
  const uint64_t key = RandomKey(7, recorder->summary().source);
  const auto values = recorder->ByTarget(6, 9);
  const QueryGroups groups(request);
  const GroupedPaths paths(&groups, 6);
  for (int64_t i = 0; i < 24; ++i) {
    const auto [group, path] = paths.At(i);
    const auto order = paths.RandomOrders(key, i, 1);
    for (int64_t position = groups.known(group); position < groups.positions(group); ++position) {
      EXPECT_DOUBLE_EQ(values[path * 9 + order[position]],
                       transform_.ToUser(FakeValue(key, PathNumber({group, path}), position)));
    }
  }
}

TEST_F(EngineGroupsTest, EachPathMayHaveItsOwnKnownValues) {
  SampleRequest request = SampleOf("c", 5, 9);
  AddGroups(&request);
  std::vector<double> expected;
  request.known.values.clear();
  for (int64_t p = 0; p < 5; ++p) {
    const auto value = static_cast<double>(p);
    request.known.values.insert(request.known.values.end(), {value, -value});
    const auto known = KnownDensities(value, -value);
    expected.insert(expected.end(), known.begin(), known.end());
  }
  EXPECT_THAT(Sample(request)->summary().known_log_densities,
              Pointwise(DoubleNear(kRounding), expected));
}

TEST_F(EngineGroupsTest, LogDensityIsThatOfEachGroup) {
  LogDensityRequest request = DensityOf("c", 9, 9);
  request.y.resize(9 * 7);
  AddGroups(&request);
  request.want_terms = request.want_mixtures = request.want_cdfs = true;
  const LogDensityResult result = LogDensity(request);
  EXPECT_THAT(result.known_log_densities,
              Pointwise(DoubleNear(kRounding), KnownDensities(0.5, -2)));
  ASSERT_EQ(result.log_density.size(), 36u);
  ASSERT_EQ(result.terms.size(), 63u);
  ASSERT_EQ(result.cdfs.size(), 63u);
  for (int64_t b = 0; b < 9; ++b) {
    std::vector<double> sums(4);
    int64_t u = b * 7;
    for (const int32_t row : {0, 1, 2, 4, 5, 6, 7}) {
      const double term = LogDensityOf(request.y[u], kPosition[row], row);
      EXPECT_NEAR(result.terms[u], term, kRounding);
      EXPECT_DOUBLE_EQ(result.mixtures.means[u], transform_.ToUser(static_cast<double>(row)));
      sums[kGroup[row]] += term;
      ++u;
    }
    for (int64_t group = 0; group < 4; ++group) {
      EXPECT_NEAR(result.log_density[b * 4 + group], sums[group], kRounding);
    }
  }
  EXPECT_EQ(metrics_.values_of(WorkKind::kDensity), 63);
}

TEST_F(EngineGroupsTest, LogDensityAveragesOverTheOrdersOfEachGroup) {
  LogDensityRequest request = DensityOf("c", 2, 9);
  request.y.resize(2 * 7);
  AddGroups(&request);
  request.random_orders = 5;
  const LogDensityResult result = LogDensity(request);
  ASSERT_EQ(result.log_density.size(), 8u);
  ASSERT_EQ(result.standard_error.size(), 8u);
  const QueryGroups groups(request);
  const GroupedPaths paths(&groups, 10);
  std::vector<std::vector<double>> sums(8);
  for (int64_t i = 0; i < 40; ++i) {
    const auto [group, path] = paths.At(i);
    const auto order = paths.RandomOrders(RandomKey(11, result.source), i, 1, 5);
    double sum = 0;
    for (int64_t position = groups.known(group); position < groups.positions(group); ++position) {
      const int32_t row = order[position];
      sum += LogDensityOf(request.y[path / 5 * 7 + groups.UnknownIndex(row)], position, row);
    }
    sums[path / 5 * 4 + group].push_back(sum);
  }
  for (size_t i = 0; i < 8; ++i) {
    ASSERT_EQ(sums[i].size(), 5u);
    const OrderAverage expected = AverageOverOrders(sums[i]);
    EXPECT_NEAR(result.log_density[i], expected.log_mean, kRounding);
    EXPECT_NEAR(result.standard_error[i], expected.standard_error, kRounding);
  }
}

TEST_F(EngineGroupsTest, PredictionsAreConditionalOnTheirGroup) {
  PredictRequest request = PredictOf("c", 9);
  AddGroups(&request);
  request.quantiles = {0.1, 0.5};
  request.want_mixtures = true;
  const PredictResult result = Predict(request);
  ASSERT_EQ(result.mean.size(), 7u);
  int64_t u = 0;
  for (const int32_t row : {0, 1, 2, 4, 5, 6, 7}) {
    const double mean = transform_.ToUser(static_cast<double>(row));
    EXPECT_NEAR(result.mean[u], mean, kRounding);
    EXPECT_NEAR(result.quantiles[2 * u + 1], mean, 1e-6);
    EXPECT_DOUBLE_EQ(result.mixtures.means[u], mean);
    ++u;
  }
  EXPECT_THAT(result.known_log_densities,
              Pointwise(DoubleNear(kRounding), KnownDensities(0.5, -2)));
  request.known = {};
  const PredictResult marginal = Predict(request);
  EXPECT_EQ(marginal.mean.size(), 9u);
  EXPECT_TRUE(marginal.known_log_densities.empty());
}

TEST_F(EngineGroupsTest, AnEstimateHasTheTilesOfAllGroups) {
  SampleRequest request = SampleOf("c", 1, 9);
  request.group_sizes = kSizes;
  request.validate_only = true;
  // A tile of the three groups of 2 rows, and one of the group of 3.
  EXPECT_EQ(Sample(request)->summary().estimate->device_bytes, 2 * 3 * 2 * 64);
}

TEST_F(EngineGroupsTest, TheBufferLimitsEachGroup) {
  const auto rows = static_cast<int32_t>(model_.config.buffer_size);
  SampleRequest request = SampleOf("c", 1, 2 * rows);
  request.group_sizes = {rows, rows};
  EXPECT_EQ(Sample(request)->values(), 2 * rows);
  request.group_sizes = {rows - 1, rows + 1};
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, request, recorder);
  EXPECT_EQ(ErrorField(recorder->Wait()), "group_sizes[1]");
  request.beyond_buffer = BeyondBuffer::kWrap;
  const auto wrapped = Sample(request);
  EXPECT_EQ(wrapped->values(), 2 * rows);
  EXPECT_EQ(wrapped->summary().notes.size(), 1u);
}

}  // namespace
}  // namespace chorale::testing
