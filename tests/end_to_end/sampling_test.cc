// Samples have the distribution that the model describes, and are reported with the right rows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/model_server_fixture.h"
#include "tests/end_to_end/statistics.h"

namespace chorale::end_to_end {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kBatches = 2;
constexpr int64_t kBatchPaths = 10'000;
constexpr int64_t kQueryRows = 3;
constexpr int64_t kBins = 4;  // per query row: 64 cells of 312 paths

const ExactMixture kMixture = {.mean = {-1.0, 2.0}, .std = {0.5, 1.0}, .weight = {0.3, 0.7}};

class SamplingTest : public ModelServerFixture {
 protected:
  static void SetUpTestSuite() {
    ModelFiles constant({.num_components = 2});
    constant.SetMixture(kMixture);
    ModelFiles certain = DependentModel();  // almost certain of every value
    for (float& bias : certain["head.std_bias"].values) bias = -20;
    for (float& weight : certain["head.weight_bias"].values) weight = 0;
    certain["head.weight_bias"].values[0] = 60;
    ModelFiles scaled({.n_layers = 2, .num_components = 3, .z_score = true});
    scaled.FillRandom(/*seed=*/8, /*gain=*/1.0);
    ASSERT_NO_FATAL_FAILURE(StartServer({{"constant", constant},
                                         {"dependent", DependentModel()},
                                         {"certain", certain},
                                         {"scaled", scaled}}));
    for (const char* model : {"constant", "dependent", "certain"}) {
      ASSERT_NO_FATAL_FAILURE(RegisterContext(model, RandomRows(4, 1, 3), model));
    }
  }

  // Draws of kBatches requests, one after the other: [kBatches * kBatchPaths, kQueryRows].
  static std::vector<double> Draw(const std::string& context) {
    std::vector<double> values;
    for (int64_t batch = 0; batch < kBatches; ++batch) {
      const Samples samples =
          client().Sample(MakeSample(context, QueryRows(), kBatchPaths, 1000 + batch));
      EXPECT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
      values.insert(values.end(), samples.values.begin(), samples.values.end());
    }
    return values;
  }

  // F_t(y_t | history_0 .. history_{t-1}) of all paths, by the mixtures that LogDensity tells for
  // the given histories. [paths, kQueryRows] each.
  static std::vector<double> Transform(const std::vector<double>& values,
                                       const std::vector<double>& history) {
    constexpr int64_t kChunk = 4000 * kQueryRows;
    std::vector<double> points;
    for (size_t first = 0; first < values.size(); first += kChunk) {
      v1::LogDensityRequest request = MakeLogDensity(
          "dependent", QueryRows(), {history.begin() + first, history.begin() + first + kChunk});
      request.set_include_mixtures(true);
      const auto reply = client().LogDensity(request);
      EXPECT_TRUE(reply.ok()) << reply.status.error_message();
      const v1::Mixtures& mixtures = reply.value.mixtures();
      const int64_t m = mixtures.component_count();
      EXPECT_EQ(mixtures.means_size(), kChunk * m);
      if (mixtures.means_size() != kChunk * m) return {};
      for (int64_t i = 0; i < kChunk; ++i) {
        const auto row = [&](const auto& all) {
          return std::vector<double>(all.begin() + i * m, all.begin() + (i + 1) * m);
        };
        const ExactMixture mixture{.mean = row(mixtures.means()),
                                   .std = row(mixtures.stds()),
                                   .weight = row(mixtures.weights())};
        points.push_back(mixture.Cdf(values[first + i]));
      }
    }
    return points;
  }

  static Rows QueryRows() { return {.features = 1, .x = {-1.5, 0.25, 1.0}, .y = {}}; }
};

std::vector<double> TransformBy(const ExactMixture& mixture, const std::vector<double>& values) {
  std::vector<double> points;
  for (const double value : values) points.push_back(mixture.Cdf(value));
  return points;
}

TEST_F(SamplingTest, AKnownMixtureIsDrawnExactly) {
  const std::vector<double> values = Draw("constant");
  const std::vector<double> points = TransformBy(kMixture, values);
  EXPECT_LT(ChiSquareScore(points, kQueryRows, kBins), kChiSquareLimit);
  for (int64_t t = 0; t < kQueryRows; ++t) {
    EXPECT_LT(KolmogorovScore(points, kQueryRows, t), kKolmogorovLimit) << "query row " << t;
  }

  // The tests notice a weight that is off by 0.05, a standard deviation that is off by a tenth, a
  // mean that is off by 0.1, and query rows that are not independent.
  ExactMixture wrong = kMixture;
  wrong.weight = {0.35, 0.65};
  EXPECT_GT(ChiSquareScore(TransformBy(wrong, values), kQueryRows, kBins), 2 * kChiSquareLimit);
  EXPECT_GT(KolmogorovScore(TransformBy(wrong, values), kQueryRows, 1), 2 * kKolmogorovLimit);
  wrong = kMixture;
  wrong.std[1] *= 1.1;
  EXPECT_GT(ChiSquareScore(TransformBy(wrong, values), kQueryRows, kBins), kChiSquareLimit);
  wrong = kMixture;
  wrong.mean[0] += 0.1;
  EXPECT_GT(ChiSquareScore(TransformBy(wrong, values), kQueryRows, kBins), kChiSquareLimit);
  std::vector<double> copied = points;
  for (size_t i = 0; i < copied.size(); i += kQueryRows) copied[i + 1] = copied[i];
  EXPECT_GT(ChiSquareScore(copied, kQueryRows, kBins), 2 * kChiSquareLimit);
}

TEST_F(SamplingTest, EachTargetIsDrawnGivenTheOnesBeforeIt) {
  const std::vector<double> values = Draw("dependent");
  const std::vector<double> points = Transform(values, values);
  EXPECT_LT(ChiSquareScore(points, kQueryRows, kBins), kChiSquareLimit);
  for (int64_t t = 0; t < kQueryRows; ++t) {
    EXPECT_LT(KolmogorovScore(points, kQueryRows, t), kKolmogorovLimit) << "query row " << t;
  }
  // Conditioned on the first value of another path, later ones have another distribution.
  std::vector<double> history = values;
  for (size_t i = 0; i < history.size(); i += kQueryRows) {
    history[i] = values[(i + kQueryRows) % values.size()];
  }
  const std::vector<double> wrong = Transform(values, history);
  EXPECT_GT(ChiSquareScore(wrong, kQueryRows, kBins), 1.5 * kChiSquareLimit);
}

TEST_F(SamplingTest, RandomOrdersAreReportedAndHaveTheirOwnDensity) {
  const Rows query_rows = RandomRows(5, 1, 22);
  v1::SampleRequest request = MakeSample("dependent", query_rows, 6, 11);
  request.set_order(v1::SampleRequest::ORDER_RANDOM_PER_PATH);
  request.set_include_log_densities(true);
  const Samples samples = client().Sample(request);
  ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
  double worst_as_given = 0;
  for (int64_t path = 0; path < samples.paths; ++path) {
    Rows permuted{.features = 1, .x = {}, .y = {}};
    std::vector<double> values;
    double joint = 0;
    for (int64_t step = 0; step < samples.query_rows; ++step) {
      const int32_t query_row = samples.order[path * samples.query_rows + step];
      ASSERT_GE(query_row, 0);
      permuted.x.push_back(query_rows.x[query_row]);
      values.push_back(samples.values[path * samples.query_rows + query_row]);
      joint += samples.log_densities[path * samples.query_rows + query_row];
    }
    const auto in_order = client().LogDensity(MakeLogDensity("dependent", permuted, values));
    ASSERT_TRUE(in_order.ok()) << in_order.status.error_message();
    EXPECT_NEAR(in_order.value.log_densities(0), joint, 2e-4) << "path " << path;

    const auto begin = samples.values.begin() + path * samples.query_rows;
    const auto as_given = client().LogDensity(
        MakeLogDensity("dependent", query_rows, {begin, begin + samples.query_rows}));
    worst_as_given = std::max(worst_as_given, std::abs(as_given.value.log_densities(0) - joint));
  }
  EXPECT_GT(worst_as_given, 1e-2) << "the order makes no difference: nothing was tested";
}

TEST_F(SamplingTest, AllOrdersAreEquallyLikely) {
  v1::SampleRequest request = MakeSample("constant", QueryRows(), 12'000, 12);
  request.set_order(v1::SampleRequest::ORDER_RANDOM_PER_PATH);
  const Samples samples = client().Sample(request);
  ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
  std::map<std::vector<int32_t>, int64_t> counts;
  for (auto step = samples.order.begin(); step != samples.order.end(); step += kQueryRows) {
    ++counts[{step, step + kQueryRows}];
  }
  EXPECT_EQ(counts.size(), 6);
  for (const auto& [order, count] : counts) {
    EXPECT_NEAR(count, 2000, 5 * std::sqrt(12'000 * (1.0 / 6) * (5.0 / 6)));
  }
}

TEST_F(SamplingTest, ResultsComeInTheOrderOfTheRowsGiven) {
  const Rows query_rows = RandomRows(16, 1, 23);
  const auto predicted = client().Predict(MakePredict("certain", query_rows));
  ASSERT_TRUE(predicted.ok()) << predicted.status.error_message();
  for (const auto order :
       {v1::SampleRequest::ORDER_GIVEN, v1::SampleRequest::ORDER_RANDOM_PER_PATH}) {
    v1::SampleRequest request = MakeSample("certain", query_rows, 20, 13);
    request.set_order(order);
    request.set_include_log_densities(true);
    const Samples samples = client().Sample(request);
    ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
    for (int64_t path = 0; path < samples.paths; ++path) {
      // Only the first query row of a path is drawn from what Predict sees.
      const int32_t query_row = samples.order[path * 16];
      const double drawn = samples.values[path * 16 + query_row];
      EXPECT_NEAR(drawn, predicted.value.means(query_row), 6 * predicted.value.stds(query_row));
      if (order == v1::SampleRequest::ORDER_GIVEN) {
        EXPECT_EQ(query_row, 0);
      }
    }
  }
  // Reversed rows give reversed predictions, and these differ.
  Rows reversed = query_rows;
  std::reverse(reversed.x.begin(), reversed.x.end());
  const auto backwards = client().Predict(MakePredict("certain", reversed));
  ASSERT_TRUE(backwards.ok());
  double spread = 0;
  for (int t = 0; t < 16; ++t) {
    EXPECT_EQ(backwards.value.means(15 - t), predicted.value.means(t)) << t;
    spread = std::max(spread, std::abs(predicted.value.means(t) - predicted.value.means(0)));
  }
  EXPECT_GT(spread, 20 * predicted.value.stds(0));
}

TEST_F(SamplingTest, ZeroIsASeed) {
  const Samples zero = client().Sample(MakeSample("dependent", QueryRows(), 50, 0));
  EXPECT_EQ(zero.summary.seed(), 0);
  EXPECT_EQ(Difference(zero, client().Sample(MakeSample("dependent", QueryRows(), 50, 0))), "");
}

TEST_F(SamplingTest, WithoutASeedTheServerChoosesOne) {
  v1::SampleRequest unseeded = MakeSample("dependent", QueryRows(), 50, 0);
  unseeded.clear_seed();
  const Samples first = client().Sample(unseeded);
  const Samples second = client().Sample(unseeded);
  ASSERT_TRUE(first.complete() && second.complete());
  EXPECT_LT(first.summary.seed(), uint64_t{1} << 53);
  EXPECT_NE(first.summary.seed(), second.summary.seed());
  EXPECT_FALSE(SameBits(first, second));
  const Samples again =
      client().Sample(MakeSample("dependent", QueryRows(), 50, first.summary.seed()));
  EXPECT_EQ(Difference(first, again), "");
  EXPECT_EQ(again.summary.seed(), first.summary.seed());
}

TEST_F(SamplingTest, LogDensityAveragesOverRandomOrders) {
  const Rows two{.features = 1, .x = {-1.0, 0.8}, .y = {}};
  const std::vector<double> values = {0.4, -0.7};
  const double forward =
      client().LogDensity(MakeLogDensity("dependent", two, values)).value.log_densities(0);
  const Rows swapped{.features = 1, .x = {0.8, -1.0}, .y = {}};
  const double backward =
      client().LogDensity(MakeLogDensity("dependent", swapped, {-0.7, 0.4})).value.log_densities(0);
  ASSERT_GT(std::abs(forward - backward), 1e-2) << "the order makes no difference";

  constexpr int kOrders = 64;
  v1::LogDensityRequest request = MakeLogDensity("dependent", two, values);
  request.set_random_order_count(kOrders);
  request.set_seed(9);
  const auto reply = client().LogDensity(request);
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.value.seed(), 9);
  // Of two rows, each pair of an order and its reverse has both orders there are.
  const double mean = std::log((std::exp(forward) + std::exp(backward)) / 2);
  EXPECT_NEAR(reply.value.log_densities(0), mean, 1e-4);
  ASSERT_EQ(reply.value.standard_errors_size(), 1);
  EXPECT_NEAR(reply.value.standard_errors(0), 0, 1e-4);

  // The error of the average over few orders of more rows is about the distance from that over
  // many.
  const Rows rows = RandomRows(6, 1, 33);
  request = MakeLogDensity("dependent", rows, {0.4, -0.7, 1.1, 0.2, -0.5, 0.9});
  request.set_random_order_count(512);
  request.set_seed(10);
  const auto many = client().LogDensity(request);
  request.set_random_order_count(16);
  request.set_seed(11);
  const auto few = client().LogDensity(request);
  ASSERT_TRUE(many.ok() && few.ok());
  const double error = few.value.standard_errors(0);
  EXPECT_GT(error, many.value.standard_errors(0));
  EXPECT_LT(std::abs(few.value.log_densities(0) - many.value.log_densities(0)), 5 * error);

  request.set_random_order_count(3);
  EXPECT_THAT(client().LogDensity(request).value.standard_errors(), IsEmpty());
}

TEST_F(SamplingTest, NormalisedModelsAnswerInTheUsersUnits) {
  Rows rows = RandomRows(60, 2, 31);
  Rows query_rows = RandomRows(6, 2, 32);
  ASSERT_TRUE(client().Register("units", rows, "models/scaled").ok());
  // The same data in other units: x' = 3 x + 5, y' = 8 y - 3.
  Rows other_targets = query_rows;
  for (double& x : rows.x) x = 3 * x + 5;
  for (double& x : other_targets.x) x = 3 * x + 5;
  for (double& y : rows.y) y = 8 * y - 3;
  ASSERT_TRUE(client().Register("other-units", rows, "models/scaled").ok());

  // The table in other units is another table, so its random numbers are others; but what was drawn
  // for the one has the same density in the other.
  v1::SampleRequest request = MakeSample("units", query_rows, 30, 14);
  request.set_include_log_densities(true);
  const Samples samples = client().Sample(request);
  ASSERT_TRUE(samples.complete());
  std::vector<double> values = samples.values;
  for (double& value : values) value = 8 * value - 3;
  v1::LogDensityRequest density = MakeLogDensity("other-units", other_targets, values);
  density.set_include_terms(true);
  density.set_include_cdfs(true);
  const auto other = client().LogDensity(density);
  ASSERT_TRUE(other.ok()) << other.status.error_message();
  // Draws of the model itself: their cdfs are uniform.
  double mean_cdf = 0;
  for (const double cdf : other.value.cdfs()) {
    EXPECT_TRUE(cdf > 0 && cdf < 1) << cdf;
    mean_cdf += cdf / static_cast<double>(values.size());
  }
  EXPECT_NEAR(mean_cdf, 0.5, 5 * std::sqrt(1.0 / 12 / static_cast<double>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(other.value.terms(static_cast<int>(i)), samples.log_densities[i] - std::log(8.0),
                1e-3)
        << i;
  }

  v1::PredictRequest predict = MakePredict("units", query_rows);
  for (const double q : {0.1, 0.5, 0.9}) predict.add_quantiles(q);
  const auto prediction = client().Predict(predict);
  predict.set_context("contexts/other-units");
  *predict.mutable_rows() = FeatureTable(other_targets);
  const auto other_prediction = client().Predict(predict);
  ASSERT_TRUE(prediction.ok() && other_prediction.ok());
  for (int t = 0; t < 6; ++t) {
    EXPECT_NEAR(other_prediction.value.means(t), 8 * prediction.value.means(t) - 3, 1e-3);
    EXPECT_NEAR(other_prediction.value.stds(t), 8 * prediction.value.stds(t), 1e-3);
    for (int q = 3 * t; q < 3 * t + 3; ++q) {
      EXPECT_NEAR(other_prediction.value.quantiles(q), 8 * prediction.value.quantiles(q) - 3, 1e-3);
    }
  }
}

}  // namespace
}  // namespace chorale::end_to_end
