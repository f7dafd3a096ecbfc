// Known values over the real CPU backend: results are those of the joint distribution.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/cpu_engine_fixture.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

constexpr double kTolerance = 1e-4;  // of a log-density

class EngineCpuKnownValuesTest : public CpuEngineFixture {
 protected:
  // Of the rows 3 and 1, and then 0, 2 and 4.
  LogDensityRequest DensityOfTheOthers(std::vector<double> y) const {
    auto request = MakeRequest<LogDensityRequest>();
    request.known = kKnown;
    request.vectors = static_cast<int64_t>(y.size()) / 3;
    request.y = std::move(y);
    request.want_mixtures = true;
    return request;
  }

  const KnownValues kKnown = {{3, 1}, {0.7, -1.2}};
};

INSTANTIATE_TEST_SUITE_P(RowEncoders, EngineCpuKnownValuesTest,
                         ::testing::Values("feature_mean", "cell_attention"));

TEST_P(EngineCpuKnownValuesTest, TheJointDensityIsThatOfTheKnownValuesTimesThatOfTheOthers) {
  const std::vector<double> others = {0.3, 2.1, -0.4};
  const LogDensityResult given = LogDensity(DensityOfTheOthers(others));
  ASSERT_EQ(given.known_log_densities.size(), 1u);

  auto joint = MakeRequest<LogDensityRequest>();
  for (Column& column : joint.query_rows.columns) {
    const std::vector<double> cells = column.numbers;
    for (size_t i = 0; i < 5; ++i) column.numbers[i] = cells[std::vector{3, 1, 0, 2, 4}[i]];
  }
  joint.vectors = 1;
  joint.y = {0.7, -1.2, 0.3, 2.1, -0.4};
  joint.want_terms = true;
  const LogDensityResult all = LogDensity(joint);
  EXPECT_NEAR(given.known_log_densities[0], all.terms[0] + all.terms[1], kTolerance);
  EXPECT_NEAR(given.known_log_densities[0] + given.log_density.at(0), all.log_density.at(0),
              kTolerance);

  auto sample = MakeRequest<SampleRequest>();
  sample.known = kKnown;
  sample.paths = 3;
  EXPECT_THAT(Sample(sample)->summary().known_log_densities,
              Pointwise(DoubleNear(kTolerance), given.known_log_densities));
  auto predict = MakeRequest<PredictRequest>();
  predict.known = kKnown;
  EXPECT_THAT(Predict(predict).known_log_densities,
              Pointwise(DoubleNear(kTolerance), given.known_log_densities));
}

// The first of the other rows has the same distribution in all calls.
TEST_P(EngineCpuKnownValuesTest, PredictionsAreConditionalOnTheKnownValues) {
  auto request = MakeRequest<PredictRequest>();
  request.known = kKnown;
  request.want_mixtures = true;
  const PredictResult predicted = Predict(request);
  ASSERT_EQ(predicted.mean.size(), 3u);
  const LogDensityResult given = LogDensity(DensityOfTheOthers({0, 0, 0}));
  const size_t components = static_cast<size_t>(predicted.mixtures.components);
  for (size_t m = 0; m < components; ++m) {
    EXPECT_NEAR(predicted.mixtures.means[m], given.mixtures.means[m], kTolerance);
    EXPECT_NEAR(predicted.mixtures.stds[m], given.mixtures.stds[m], kTolerance);
    EXPECT_NEAR(predicted.mixtures.weights[m], given.mixtures.weights[m], kTolerance);
  }
  request.known.values[0] = 5;
  EXPECT_NE(Predict(request).mean, predicted.mean);
  request.known = {};
  EXPECT_NE(Predict(request).mean.at(2), predicted.mean.at(1)) << "row 2 by itself";
}

// With the values that it drew before, a path draws the same values after them, because the same
// positions use the same random numbers.
TEST_P(EngineCpuKnownValuesTest, EachPathIsContinued) {
  auto request = MakeRequest<SampleRequest>();
  request.paths = 70;  // more than a tile
  request.seed = 5;
  request.snapping = Snapping::kOff;
  const std::vector<double> whole = Sample(request)->ByTarget(70, 5);
  request.known.rows = {0, 1};
  for (int64_t p = 0; p < 70; ++p) {
    for (int64_t t = 0; t < 2; ++t) request.known.values.push_back(whole[p * 5 + t]);
  }
  const auto recorder = Sample(request);
  EXPECT_EQ(recorder->summary().known_log_densities.size(), 70u);
  const std::vector<double> rest = recorder->ByTarget(70, 3);
  for (int64_t p = 0; p < 70; ++p) {
    for (int64_t t = 0; t < 3; ++t) {
      EXPECT_NEAR(rest[p * 3 + t], whole[p * 5 + 2 + t], kTolerance) << p;
    }
  }
}

}  // namespace
}  // namespace chorale::testing
