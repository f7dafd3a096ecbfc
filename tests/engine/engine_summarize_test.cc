// Summarize over the fake backend: the statistics are those of the values that Sample draws.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "base/error_details.h"
#include "engine/session/path_statistics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_calls_fixture.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr double kRounding = 1e-9;

class EngineSummarizeTest : public EngineCallsFixture {
 protected:
  // The same paths as of a Sample.
  SummarizeRequest SummaryOf(const SampleRequest& sample) const {
    SummarizeRequest request;
    static_cast<SampleRequest&>(request) = sample;
    request.quantiles = {0.1, 0.5};
    request.estimator = Estimator::kValues;
    return request;
  }
  absl::StatusOr<SummarizeResult> TrySummarize(const SummarizeRequest& request) {
    Answer<SummarizeResult> answer;
    engine_->Summarize(call_, request, answer.callback());
    return answer.Wait();
  }
  SummarizeResult Summarize(const SummarizeRequest& request) {
    return TrySummarize(request).value();
  }

  // The value of each row on each path, [paths, rows], with the known values.
  std::vector<double> Draw(const SampleRequest& request) {
    const auto rows = request.query_rows.rows();
    // ByTarget indexes by row only if blocks name their rows; a request with groups does.
    SampleRequest named = request;
    if (named.group_sizes.empty()) named.group_sizes = {static_cast<int32_t>(rows)};
    std::vector<double> values = Sample(named)->ByTarget(request.paths, rows);
    for (int64_t path = 0; path < request.paths; ++path) {
      for (int64_t i = 0; i < request.known.count(); ++i) {
        values[path * rows + request.known.rows[i]] = request.known.value(path, i);
      }
    }
    return values;
  }
};

std::vector<double> Column(const std::vector<double>& values, int64_t columns, int64_t column) {
  std::vector<double> cells;
  for (size_t i = column; i < values.size(); i += columns) cells.push_back(values[i]);
  return cells;
}

void ExpectStatistics(const SummarizeResult& result, int64_t row,
                      const std::vector<double>& values) {
  const PathStatistics expected = StatisticsOf(values, std::vector<double>{0.1, 0.5});
  EXPECT_NEAR(result.means.at(row), expected.mean, kRounding);
  EXPECT_NEAR(result.mean_errors.at(row), expected.mean_error, kRounding);
  EXPECT_NEAR(result.stds.at(row), expected.std, kRounding);
  for (int64_t q = 0; q < 2; ++q) {
    EXPECT_NEAR(result.quantiles.at(2 * row + q), expected.quantiles[q], kRounding);
    EXPECT_NEAR(result.quantile_errors.at(2 * row + q), expected.quantile_errors[q], kRounding);
  }
}

TEST_F(EngineSummarizeTest, RowsHaveTheStatisticsOfTheirValues) {
  const SampleRequest sample = SampleOf("c", 31, 5);
  const std::vector<double> values = Draw(sample);
  SummarizeRequest request = SummaryOf(sample);
  request.returned_paths = 2;
  const SummarizeResult result = Summarize(request);
  ASSERT_EQ(result.means.size(), 5u);
  for (int64_t row = 0; row < 5; ++row) ExpectStatistics(result, row, Column(values, 5, row));
  EXPECT_EQ(result.paths, std::vector<double>(values.begin(), values.begin() + 10));
  EXPECT_EQ(result.seed, 7u);
  EXPECT_FALSE(result.source.context_digest.empty());
  EXPECT_TRUE(result.functionals.empty());
  EXPECT_TRUE(result.covariances.empty());
}

TEST_F(EngineSummarizeTest, Covariances) {
  SampleRequest sample = SampleOf("c", 31, 5);
  sample.known = {{3}, {0.5}};
  const std::vector<double> values = Draw(sample);
  SummarizeRequest request = SummaryOf(sample);
  request.want_covariances = true;
  const SummarizeResult result = Summarize(request);
  ASSERT_EQ(result.covariances.size(), 16u);
  const std::vector<int64_t> rows = {0, 1, 2, 4};
  for (int64_t a = 0; a < 4; ++a) {
    for (int64_t b = 0; b < 4; ++b) {
      const std::vector<double> x = Column(values, 5, rows[a]), y = Column(values, 5, rows[b]);
      double sum = 0;
      for (size_t p = 0; p < x.size(); ++p)
        sum += (x[p] - result.means[a]) * (y[p] - result.means[b]);
      EXPECT_NEAR(result.covariances[a * 4 + b], sum / 30, kRounding);
    }
    EXPECT_NEAR(result.covariances[a * 5], result.stds[a] * result.stds[a], kRounding);
  }
}

// Known values count in functionals, and the orders of the paths do not matter.
TEST_F(EngineSummarizeTest, FunctionalsOfPathsWithKnownValues) {
  SampleRequest sample = SampleOf("c", 31, 5);
  sample.known = {{3, 1}, {0.5, -2}};
  sample.order = RowOrder::kRandomPerPath;
  const std::vector<double> values = Draw(sample);
  SummarizeRequest request = SummaryOf(sample);
  request.functionals = {{.type = FunctionalType::kSum, .weights = {1, 2, 3, 4, 5}},
                         {.type = FunctionalType::kMax, .rows = {3, 0}},
                         {.type = FunctionalType::kRank, .rows = {4, 1, 0}}};
  const SummarizeResult result = Summarize(request);
  ASSERT_EQ(result.means.size(), 3u);
  const std::vector<int64_t> unknown = {0, 2, 4};
  for (int64_t u = 0; u < 3; ++u) ExpectStatistics(result, u, Column(values, 5, unknown[u]));
  std::vector<double> sums, maxima;
  std::vector<std::vector<double>> ranks(3);
  for (int64_t p = 0; p < 31; ++p) {
    const double* path = values.data() + p * 5;
    sums.push_back(path[0] + 2 * path[1] + 3 * path[2] + 4 * path[3] + 5 * path[4]);
    maxima.push_back(std::max(path[0], path[3]));
    const std::vector<double> ranked = {path[4], path[1], path[0]};
    for (int64_t i = 0; i < 3; ++i) {
      ranks[i].push_back(1.0 + std::count_if(ranked.begin(), ranked.end(),
                                             [&](double v) { return v > ranked[i]; }));
    }
  }
  ASSERT_EQ(result.functionals.size(), 3u);
  for (const auto& [f, expected] : {std::pair{0, sums}, std::pair{1, maxima}}) {
    const PathStatistics statistics = StatisticsOf(expected, request.quantiles);
    const FunctionalSummary& summary = result.functionals[f];
    EXPECT_THAT(summary.means, ElementsAre(DoubleNear(statistics.mean, kRounding)));
    EXPECT_THAT(summary.mean_errors, ElementsAre(DoubleNear(statistics.mean_error, kRounding)));
    EXPECT_THAT(summary.stds, ElementsAre(DoubleNear(statistics.std, kRounding)));
    EXPECT_THAT(summary.quantiles, Pointwise(DoubleNear(kRounding), statistics.quantiles));
    EXPECT_THAT(summary.quantile_errors,
                Pointwise(DoubleNear(kRounding), statistics.quantile_errors));
  }
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(result.functionals[2].means.at(i), StatisticsOf(ranks[i], {}).mean, kRounding);
  }
  EXPECT_TRUE(result.functionals[2].quantiles.empty());
  EXPECT_EQ(result.known_log_densities.size(), 1u);
}

// Groups of 2, 3 and 2 rows; the functionals list rows of all groups in any order.
TEST_F(EngineSummarizeTest, FunctionalsAreEvaluatedInEachGroup) {
  SampleRequest sample = SampleOf("c", 31, 7);
  sample.group_sizes = {2, 3, 2};
  sample.known = {{3}, {0.5}};
  const std::vector<double> values = Draw(sample);
  SummarizeRequest request = SummaryOf(sample);
  request.want_covariances = true;
  request.returned_paths = 1;
  request.functionals = {{.type = FunctionalType::kSum},
                         {.type = FunctionalType::kSum, .rows = {6, 2, 1}, .weights = {10, 20, 30}},
                         {.type = FunctionalType::kArgmax, .rows = {6, 2, 1, 0, 4}}};
  const SummarizeResult result = Summarize(request);
  const std::vector<std::vector<int64_t>> rows = {{0, 1}, {2, 3, 4}, {5, 6}};
  for (int64_t g = 0; g < 3; ++g) {
    std::vector<double> sums(31);
    for (const int64_t row : rows[g]) {
      for (int64_t p = 0; p < 31; ++p) sums[p] += values[p * 7 + row];
    }
    const PathStatistics expected = StatisticsOf(sums, request.quantiles);
    EXPECT_NEAR(result.functionals[0].means.at(g), expected.mean, kRounding);
    EXPECT_NEAR(result.functionals[0].quantiles.at(2 * g + 1), expected.quantiles[1], kRounding);
  }
  const std::vector<double> weighted = {30 * result.means[1], 20 * result.means[2],
                                        10 * result.means[5]};
  EXPECT_THAT(result.functionals[1].means, Pointwise(DoubleNear(kRounding), weighted));
  // In the order of Functional.rows; row 6 is alone in its group.
  double first_is_largest = 0, second_row_is_largest = 0;
  for (int64_t p = 0; p < 31; ++p) {
    first_is_largest += values[p * 7] > values[p * 7 + 1] ? 1.0 / 31 : 0;
    second_row_is_largest += values[p * 7 + 2] > values[p * 7 + 4] ? 1.0 / 31 : 0;
  }
  const std::vector<double> places = {1, second_row_is_largest, 1 - first_is_largest,
                                      first_is_largest, 1 - second_row_is_largest};
  EXPECT_THAT(result.functionals[2].means, Pointwise(DoubleNear(kRounding), places));
  EXPECT_EQ(result.covariances.size(), 4u + 4u + 4u);
  EXPECT_NEAR(result.covariances[11], result.stds[5] * result.stds[5], kRounding);
  EXPECT_EQ(result.paths.size(), 6u);
}

// More values than one part of the reduction takes.
TEST_F(EngineSummarizeTest, ManyPathsAreReducedInParts) {
  const SampleRequest sample = SampleOf("c", 9'000, 16);
  SummarizeRequest request = SummaryOf(sample);
  request.want_covariances = true;
  request.functionals = {{.type = FunctionalType::kSum}};
  const SummarizeResult result = Summarize(request);
  const std::vector<double> values = Draw(sample);
  for (int64_t row = 0; row < 16; ++row) {
    ExpectStatistics(result, row, Column(values, 16, row));
    EXPECT_NEAR(result.covariances[row * 17] / (result.stds[row] * result.stds[row]), 1, 1e-9);
  }
  EXPECT_NEAR(result.functionals[0].means[0],
              std::accumulate(result.means.begin(), result.means.end(), 0.0), 1e-6);
  EXPECT_GE(metrics_.summaries, 5);
}

// The fake backend's mixtures do not depend on earlier values.
TEST_F(EngineSummarizeTest, ConditionalEstimatesHaveTheMomentsOfTheMixtures) {
  const SampleRequest sample = SampleOf("c", 31, 5);
  SummarizeRequest request = SummaryOf(sample);
  request.estimator = Estimator::kConditional;
  request.functionals = {{.type = FunctionalType::kSum}, {.type = FunctionalType::kMax}};
  const SummarizeResult result = Summarize(request);
  PredictRequest predict;
  static_cast<RequestBase&>(predict) = request;
  predict.quantiles = request.quantiles;
  const PredictResult expected = Predict(predict);
  EXPECT_TRUE(result.conditional);
  double sum = 0;
  for (int64_t row = 0; row < 5; ++row) {
    EXPECT_NEAR(result.means.at(row), expected.mean[row], 1e-6);
    sum += expected.mean[row];
  }
  EXPECT_NEAR(result.functionals[0].means.at(0), sum, 1e-6);
  EXPECT_TRUE(result.functionals[0].conditional);
  EXPECT_FALSE(result.functionals[1].conditional);
}

TEST_F(EngineSummarizeTest, SnappedValuesHaveNoConditionalEstimates) {
  Dataset counts = MakeDataset(40);
  for (size_t i = 0; i < counts.y.size(); ++i) counts.y[i] = static_cast<double>(i % 4);
  ASSERT_TRUE(engine_->Register(kTenant, "counts", "", std::move(counts)).ok());
  SummarizeRequest request = SummaryOf(SampleOf("counts", 31, 5));
  request.estimator = Estimator::kConditional;
  const SummarizeResult result = Summarize(request);
  EXPECT_FALSE(result.conditional);
  request.snapping = Snapping::kOff;
  EXPECT_TRUE(Summarize(request).conditional);
}

TEST_F(EngineSummarizeTest, EventsThatNeverOccurHaveAnError) {
  SummarizeRequest request = SummaryOf(SampleOf("c", 98, 3));
  request.functionals = {{.type = FunctionalType::kAny, .threshold = 1e9},
                         {.type = FunctionalType::kSumBeyond, .threshold = 1e9, .below = true},
                         {.type = FunctionalType::kArgmax, .rows = {1}},
                         {.type = FunctionalType::kCount, .threshold = 1e9}};
  const SummarizeResult result = Summarize(request);
  EXPECT_THAT(result.functionals[0].means, ElementsAre(0));
  EXPECT_THAT(result.functionals[0].mean_errors, ElementsAre(ErrorOfSettledEvent(98)));
  EXPECT_THAT(result.functionals[1].means, ElementsAre(1));
  EXPECT_THAT(result.functionals[1].mean_errors, ElementsAre(ErrorOfSettledEvent(98)));
  EXPECT_THAT(result.functionals[2].mean_errors, ElementsAre(0));  // the only row
  EXPECT_THAT(result.functionals[3].mean_errors, ElementsAre(0));
}

TEST_F(EngineSummarizeTest, AnEstimateDrawsNothing) {
  SummarizeRequest request = SummaryOf(SampleOf("c", 6, 5));
  request.validate_only = true;
  const SummarizeResult result = Summarize(request);
  EXPECT_EQ(result.estimate->device_bytes, 2 * 4 * 5 * 64);
  EXPECT_TRUE(result.means.empty());
  request.returned_paths = 7;
  EXPECT_EQ(ErrorField(TrySummarize(request).status()), "returned_path_count");
  request.returned_paths = 0;
  request.paths = 15;
  EXPECT_TRUE(TrySummarize(request).ok());
  request.sampling = Sampling::kSobol;
  EXPECT_EQ(ErrorField(TrySummarize(request).status()), "path_count");
}

}  // namespace
}  // namespace chorale::testing
