#include "client/cpp/sample_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace chorale::client {
namespace {

Samples MakeSamples(int64_t paths, int64_t rows, std::vector<double> values) {
  Samples samples;
  samples.path_count = paths;
  samples.row_count = rows;
  samples.values = std::move(values);
  return samples;
}

TEST(SummarizeDrawsTest, HandWorked) {
  const DrawSummary draws = SummarizeDraws({5, 1, 3, 2, 4});
  EXPECT_DOUBLE_EQ(draws.mean, 3.0);
  EXPECT_DOUBLE_EQ(draws.sd, std::sqrt(2.5));
  EXPECT_DOUBLE_EQ(draws.q05, 1.2);
  EXPECT_DOUBLE_EQ(draws.q25, 2.0);
  EXPECT_DOUBLE_EQ(draws.q50, 3.0);
  EXPECT_DOUBLE_EQ(draws.q75, 4.0);
  EXPECT_DOUBLE_EQ(draws.q95, 4.8);
}

TEST(SummarizeDrawsTest, OneDraw) {
  const DrawSummary draws = SummarizeDraws({7});
  EXPECT_EQ(draws.mean, 7.0);
  EXPECT_EQ(draws.q05, 7.0);
  EXPECT_TRUE(std::isnan(draws.sd));
}

TEST(SummarizeTest, JointQuantities) {
  const SampleStatistics statistics = Summarize(MakeSamples(3, 2,
                                                            {1, 10,  //
                                                             2, 20,  //
                                                             3, 30}));
  EXPECT_DOUBLE_EQ(statistics.rows[1].mean, 20.0);
  EXPECT_DOUBLE_EQ(statistics.sum.mean, 22.0);
  EXPECT_DOUBLE_EQ(statistics.sum.sd, 11.0);
  EXPECT_DOUBLE_EQ(statistics.independent_sum_sd, std::sqrt(1.0 + 100.0));
  EXPECT_DOUBLE_EQ(statistics.mean.q50, 11.0);
  EXPECT_DOUBLE_EQ(statistics.max.q50, 20.0);
  EXPECT_DOUBLE_EQ(statistics.min.q50, 2.0);
  EXPECT_NEAR(*statistics.mean_pairwise_correlation, 1.0, 1e-12);
}

// Compared with the definition: the mean of the correlations of all pairs.
TEST(SummarizeTest, MeanPairwiseCorrelationMatchesTheDefinition) {
  constexpr int64_t kPaths = 40;
  constexpr int64_t kRows = 5;
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> values;
  for (int64_t path = 0; path < kPaths; ++path) {
    const double shared = normal(random);
    for (int64_t t = 0; t < kRows; ++t) values.push_back(shared * t + normal(random));
  }
  const Samples samples = MakeSamples(kPaths, kRows, values);
  const SampleStatistics statistics = Summarize(samples);
  double sum = 0.0;
  for (int64_t a = 0; a < kRows; ++a) {
    for (int64_t b = 0; b < a; ++b) {
      double covariance = 0.0;
      for (int64_t path = 0; path < kPaths; ++path) {
        covariance += (values[path * kRows + a] - statistics.rows[a].mean) *
                      (values[path * kRows + b] - statistics.rows[b].mean);
      }
      sum += covariance / (kPaths - 1) / statistics.rows[a].sd / statistics.rows[b].sd;
    }
  }
  EXPECT_NEAR(*statistics.mean_pairwise_correlation, sum / (kRows * (kRows - 1) / 2), 1e-9);
}

TEST(SummarizeTest, NoCorrelationWhereNothingVaries) {
  EXPECT_FALSE(Summarize(MakeSamples(1, 2, {1, 2})).mean_pairwise_correlation.has_value());
  EXPECT_FALSE(Summarize(MakeSamples(2, 2, {1, 2, 1, 3})).mean_pairwise_correlation.has_value());
  EXPECT_FALSE(Summarize(MakeSamples(2, 1, {1, 2})).mean_pairwise_correlation.has_value());
}

// 101 paths over `rows` rows; the value is the path's number.
Samples Together(int64_t rows) {
  std::vector<double> values;
  for (int path = 0; path <= 100; ++path) values.insert(values.end(), rows, path);
  return MakeSamples(101, rows, values);
}

TEST(CountCoveredTest, CountsKnownValuesOnly) {
  const Samples samples = Together(4);
  const Coverage coverage =
      CountCovered(samples, Summarize(samples), {50.0, 10.0, 99.0, std::nan("")});
  EXPECT_EQ(coverage.known, 3);
  EXPECT_EQ(coverage.half.inside, 1);
  EXPECT_EQ(coverage.ninety.inside, 2);
  EXPECT_DOUBLE_EQ(coverage.half.mean_width, 50.0);
  EXPECT_DOUBLE_EQ(coverage.ninety.mean_width, 90.0);
  EXPECT_DOUBLE_EQ(coverage.mean_median_error, (0.0 + 40.0 + 49.0) / 3);
  EXPECT_NEAR(coverage.known_sd, 44.576, 1e-3);
}

// Dependent rows are inside an interval together; independent ones almost never all are.
TEST(CountCoveredTest, ExpectsWhatJointPathsDo) {
  const Samples together = Together(20);
  const std::vector<double> known(20, 50.0);
  const Coverage joint = CountCovered(together, Summarize(together), known);
  EXPECT_EQ(joint.half.fewest_expected, 0);
  EXPECT_EQ(joint.half.most_expected, 20);

  Samples shuffled = together;
  std::mt19937 random(3);
  for (int64_t t = 0; t < 20; ++t) {
    for (int64_t path = 100; path > 0; --path) {
      const auto other = static_cast<int64_t>(random() % (path + 1));
      std::swap(shuffled.values[path * 20 + t], shuffled.values[other * 20 + t]);
    }
  }
  const Coverage independent = CountCovered(shuffled, Summarize(shuffled), known);
  // Binomial (20, 0.5) has 6 to 14 there.
  EXPECT_NEAR(independent.half.fewest_expected, 6, 1);
  EXPECT_NEAR(independent.half.most_expected, 14, 1);
  EXPECT_NEAR(independent.ninety.fewest_expected, 16, 1);
  EXPECT_EQ(independent.ninety.most_expected, 20);
}

TEST(CountCoveredTest, NothingKnown) {
  const Samples samples = Together(2);
  EXPECT_EQ(CountCovered(samples, Summarize(samples), {}).known, 0);
  EXPECT_EQ(CountCovered(samples, Summarize(samples), {std::nan(""), std::nan("")}).known, 0);
}

}  // namespace
}  // namespace chorale::client
