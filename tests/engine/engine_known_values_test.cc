// Known values of query rows, on a backend whose numbers are known.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
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

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pointwise;

constexpr double kRounding = 1e-9;

// The rows at the positions of the paths in random orders, [paths, T]; with several orders of each
// vector, those of all of them.
std::vector<int32_t> OrdersOf(const RequestBase& request, int64_t paths, uint64_t key,
                              int64_t orders = 1) {
  const QueryGroups groups(request);
  return GroupedPaths(&groups, paths).RandomOrders(key, 0, paths, orders);
}

using EngineKnownValuesTest = EngineCallsFixture;

// Of 5 query rows, 3 and 1 are known.
TEST_F(EngineKnownValuesTest, PathsDrawTheOtherRows) {
  SampleRequest request = SampleOf("c", 11, 5);
  request.known = {{3, 1}, {0.5, -2}};
  request.want_log_densities = true;
  const auto recorder = Sample(request);
  const uint64_t key = RandomKey(7, recorder->summary().source);
  const auto values = recorder->ByTarget(11, 3);
  const auto densities = recorder->LogDensityOfPaths(11);
  for (int64_t p = 0; p < 11; ++p) {
    double expected = 0;
    for (int64_t step = 0; step < 3; ++step) {
      const float value = FakeValue(key, p, 2 + step);
      EXPECT_DOUBLE_EQ(values[p * 3 + step], transform_.ToUser(value));
      expected += FakeLogDensity(value, 2 + step, 2 * step) - std::log(transform_.y_std());
    }
    EXPECT_NEAR(densities[p], expected, kRounding);
  }
  EXPECT_THAT(recorder->summary().known_log_densities,
              ElementsAre(DoubleNear(LogDensityOf(0.5, 0, 3) + LogDensityOf(-2, 1, 1), kRounding)));
  EXPECT_EQ(metrics_.values_of(WorkKind::kDecode), 33);
  for (const SampleBlock& block : recorder->blocks()) EXPECT_THAT(block.query_rows, IsEmpty());
}

TEST_F(EngineKnownValuesTest, RandomOrdersAreOrdersOfTheOtherRows) {
  SampleRequest request = SampleOf("c", 11, 5);
  request.known = {{3, 1}, {0.5, -2}};
  request.order = RowOrder::kRandomPerPath;
  const auto recorder = Sample(request);
  const uint64_t key = RandomKey(7, recorder->summary().source);
  const auto values = recorder->ByTarget(11, 5);
  const auto orders = OrdersOf(request, 11, key);
  for (int64_t p = 0; p < 11; ++p) {
    EXPECT_TRUE(std::isnan(values[p * 5 + 3]));
    EXPECT_TRUE(std::isnan(values[p * 5 + 1]));
    for (int64_t position = 2; position < 5; ++position) {
      EXPECT_DOUBLE_EQ(values[p * 5 + orders[p * 5 + position]],
                       transform_.ToUser(FakeValue(key, p, position)));
    }
  }
}

TEST_F(EngineKnownValuesTest, EachPathMayHaveItsOwnValues) {
  SampleRequest request = SampleOf("c", 11, 4);
  request.known.rows = {2, 0};
  for (int64_t i = 0; i < 22; ++i) request.known.values.push_back(static_cast<double>(i) / 10);
  const auto recorder = Sample(request);
  std::vector<double> expected;
  for (int64_t p = 0; p < 11; ++p) {
    expected.push_back(LogDensityOf(request.known.values[2 * p], 0, 2) +
                       LogDensityOf(request.known.values[2 * p + 1], 1, 0));
  }
  EXPECT_THAT(recorder->summary().known_log_densities, Pointwise(DoubleNear(kRounding), expected));
  EXPECT_EQ(recorder->values(), 22);
}

TEST_F(EngineKnownValuesTest, AnEstimateCountsThePositionsOfKnownValues) {
  SampleRequest request = SampleOf("c", 6, 5);
  request.known = {{3, 1}, {0.5, -2}};
  request.validate_only = true;
  const auto recorder = Sample(request);
  EXPECT_EQ(recorder->summary().estimate->device_bytes, 2 * 4 * 5 * 64);
  EXPECT_THAT(recorder->summary().known_log_densities, IsEmpty());
}

TEST_F(EngineKnownValuesTest, LogDensityIsThatOfTheOtherRows) {
  LogDensityRequest request = DensityOf("c", 9, 5);
  request.y.resize(9 * 3);
  request.known = {{3, 1}, {0.5, -2}};
  request.want_terms = request.want_mixtures = request.want_cdfs = true;
  const LogDensityResult result = LogDensity(request);
  EXPECT_THAT(result.known_log_densities,
              ElementsAre(DoubleNear(LogDensityOf(0.5, 0, 3) + LogDensityOf(-2, 1, 1), kRounding)));
  ASSERT_EQ(result.terms.size(), 27u);
  ASSERT_EQ(result.cdfs.size(), 27u);
  ASSERT_EQ(result.mixtures.means.size(), 27u);
  for (int64_t b = 0; b < 9; ++b) {
    double sum = 0;
    for (int64_t u = 0; u < 3; ++u) {
      const double y = request.y[b * 3 + u];
      const double term = LogDensityOf(y, 2 + u, 2 * u);
      sum += term;
      EXPECT_NEAR(result.terms[b * 3 + u], term, kRounding);
      EXPECT_DOUBLE_EQ(result.mixtures.means[b * 3 + u],
                       transform_.ToUser(static_cast<double>(2 * u)));
      const double distance = ((y - transform_.y_mean()) / transform_.y_std() - 2.0 * u) / 2;
      EXPECT_NEAR(result.cdfs[b * 3 + u], std::erfc(-distance / std::sqrt(2.0)) / 2, kRounding);
    }
    EXPECT_NEAR(result.log_density[b], sum, kRounding);
  }
  EXPECT_EQ(metrics_.values_of(WorkKind::kDensity), 27);
}

TEST_F(EngineKnownValuesTest, LogDensityAveragesOverOrdersOfTheOtherRows) {
  LogDensityRequest request = DensityOf("c", 3, 5);
  request.y.resize(3 * 3);
  request.known = {{3, 1}, {0.5, -2, 0.6, -3, 0.7, -4}};  // of each vector
  request.random_orders = 4;
  const LogDensityResult result = LogDensity(request);
  const auto orders = OrdersOf(request, 12, RandomKey(11, result.source), 4);
  for (int64_t b = 0; b < 3; ++b) {
    std::vector<double> sums;
    for (int64_t r = 0; r < 4; ++r) {
      double sum = 0;
      for (int64_t position = 2; position < 5; ++position) {
        const int64_t row = orders[(b * 4 + r) * 5 + position];
        sum += LogDensityOf(request.y[b * 3 + row / 2], position, row);  // rows 0, 2 and 4
      }
      sums.push_back(sum);
    }
    const OrderAverage expected = AverageOverOrders(sums);
    EXPECT_NEAR(result.log_density.at(b), expected.log_mean, kRounding);
    EXPECT_NEAR(result.standard_error.at(b), expected.standard_error, kRounding);
    EXPECT_NEAR(result.known_log_densities.at(b),
                LogDensityOf(request.known.values[2 * b], 0, 3) +
                    LogDensityOf(request.known.values[2 * b + 1], 1, 1),
                kRounding);
  }
}

TEST_F(EngineKnownValuesTest, PredictsEachOfTheOtherRows) {
  PredictRequest request = PredictOf("c", 300);
  request.known = {{250, 1}, {0.5, -2}};
  request.quantiles = {0.5};
  request.want_mixtures = true;
  const PredictResult result = Predict(request);
  ASSERT_EQ(result.mean.size(), 298u);
  ASSERT_EQ(result.std.size(), 298u);
  ASSERT_EQ(result.quantiles.size(), 298u);
  ASSERT_EQ(result.mixtures.means.size(), 298u);
  for (int64_t u = 0; u < 298; ++u) {
    const int64_t row = u == 0 ? 0 : (u < 249 ? u + 1 : u + 2);  // all except rows 1 and 250
    const double mean = transform_.ToUser(static_cast<double>(row));
    EXPECT_NEAR(result.mean[u], mean, kRounding);
    EXPECT_NEAR(result.quantiles[u], mean, 1e-6);
    EXPECT_DOUBLE_EQ(result.mixtures.means[u], mean);
  }
  EXPECT_THAT(
      result.known_log_densities,
      ElementsAre(DoubleNear(LogDensityOf(0.5, 0, 250) + LogDensityOf(-2, 1, 1), kRounding)));
  EXPECT_EQ(metrics_.values_of(WorkKind::kPredict), 298);
}

TEST_F(EngineKnownValuesTest, WithoutThemNothingIsSaidOfThem) {
  EXPECT_THAT(Sample(SampleOf("c", 2, 2))->summary().known_log_densities, IsEmpty());
  EXPECT_THAT(LogDensity(DensityOf("c", 2, 2)).known_log_densities, IsEmpty());
  EXPECT_THAT(Predict(PredictOf("c", 2)).known_log_densities, IsEmpty());
}

TEST_F(EngineKnownValuesTest, ValuesThatTheModelCannotRepresentAreRefused) {
  SampleRequest request = SampleOf("c", 2, 4);
  request.known = {{3, 1}, {0.5, 1e300}};
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, request, recorder);
  EXPECT_EQ(ErrorField(recorder->Wait()), "known.values[1]");
}

TEST_F(EngineKnownValuesTest, PathsOfAPredictionThatTheModelWasNotTrainedForAreNoted) {
  PredictRequest request = PredictOf("c", 400);
  const auto known_rows = static_cast<int32_t>(model_.config.buffer_size);
  for (int32_t row = 0; row < known_rows; ++row) request.known.rows.push_back(row);
  request.known.values.assign(known_rows, 1);
  request.beyond_buffer = BeyondBuffer::kWrap;
  const auto beyond = [](const PredictResult& result) {
    std::string text;
    for (const ColumnNote& note : result.notes) text += note.beyond_training;
    return text;
  };
  EXPECT_THAT(beyond(Predict(request)), ::testing::HasSubstr("rows on a path"));
  request.known.rows.pop_back();
  request.known.values.pop_back();
  EXPECT_EQ(beyond(Predict(request)), "");
}

}  // namespace
}  // namespace chorale::testing
