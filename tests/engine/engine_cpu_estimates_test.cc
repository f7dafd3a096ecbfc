// Summarize over the real CPU backend: statistics that are estimated from the mixtures of the
// values are those of the mixtures that LogDensity returns for these values.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/cpu_engine_fixture.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

// Positions of a decode and of a density are computed in batches of different shapes.
constexpr double kTolerance = 1e-4;
constexpr int64_t kPaths = 300;  // more than the 256 whose mixtures are kept
constexpr int64_t kKeptPaths = 256;
constexpr int64_t kRows = 6;

double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }
double NormalDensity(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI); }

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double ErrorOf(const std::vector<double>& values) {
  const double mean = MeanOf(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / (count - 1) / count);
}

class EngineCpuEstimatesTest : public CpuEngineFixture {
 protected:
  SummarizeResult Summarize(const SummarizeRequest& request) {
    Answer<SummarizeResult> answer;
    engine_->Summarize({.tenant = kTenant}, request, answer.callback());
    return answer.Wait().value();
  }

  // Draws the paths of the request, and computes the mixtures of all their values.
  void Draw(const SummarizeRequest& request) {
    request_ = request;
    SampleRequest named = request;
    if (named.group_sizes.empty()) named.group_sizes = {static_cast<int32_t>(kRows)};
    const std::vector<double> values = Sample(named)->ByTarget(kPaths, kRows);
    LogDensityRequest density;
    static_cast<RequestBase&>(density) = request;
    density.vectors = kPaths;
    density.want_mixtures = true;
    unknown_.clear();
    for (int32_t row = 0; row < kRows; ++row) {
      const auto& known = request.known.rows;
      if (std::find(known.begin(), known.end(), row) == known.end()) unknown_.push_back(row);
    }
    for (int64_t path = 0; path < kPaths; ++path) {
      for (const int32_t row : unknown_) density.y.push_back(values[path * kRows + row]);
    }
    mixtures_ = LogDensity(density).mixtures;
  }

  // The mean over the components of the mixture of row `unknown` on a path of f(mean, std).
  template <typename F>
  double Expect(int64_t path, int64_t unknown, const F& f) const {
    const int64_t first =
        (path * static_cast<int64_t>(unknown_.size()) + unknown) * mixtures_.components;
    double sum = 0;
    for (int64_t j = first; j < first + mixtures_.components; ++j) {
      sum += mixtures_.weights[j] * f(mixtures_.means[j], mixtures_.stds[j]);
    }
    return sum;
  }
  double ExpectedValue(int64_t path, int64_t unknown) const {
    return Expect(path, unknown, [](double mean, double) { return mean; });
  }
  double ProbabilityAbove(int64_t path, int64_t unknown, double y) const {
    return Expect(path, unknown, [y](double m, double s) { return NormalCdf((m - y) / s); });
  }
  double ExcessBelow(int64_t path, int64_t unknown, double y) const {
    return Expect(path, unknown, [y](double m, double s) {
      const double z = (y - m) / s;
      return s * (z * NormalCdf(z) + NormalDensity(z));
    });
  }
  // Calls f(path) for each path.
  template <typename F>
  static std::vector<double> OfPaths(const F& f, int64_t paths = kPaths) {
    std::vector<double> numbers;
    for (int64_t path = 0; path < paths; ++path) numbers.push_back(f(path));
    return numbers;
  }

  void ExpectRow(const SummarizeResult& result, int64_t unknown) const {
    const auto means = OfPaths([&](int64_t path) { return ExpectedValue(path, unknown); });
    const auto squares = OfPaths([&](int64_t path) {
      return Expect(path, unknown, [](double m, double s) { return m * m + s * s; });
    });
    const double mean = MeanOf(means);
    EXPECT_NEAR(result.means.at(unknown), mean, kTolerance);
    EXPECT_NEAR(result.mean_errors.at(unknown), ErrorOf(means), kTolerance);
    EXPECT_NEAR(result.stds.at(unknown), std::sqrt(MeanOf(squares) - mean * mean), 3e-3);
    for (size_t q = 0; q < request_.quantiles.size(); ++q) {
      const size_t at = unknown * request_.quantiles.size() + q;
      const double y = result.quantiles.at(at);
      const auto above =
          OfPaths([&](int64_t path) { return ProbabilityAbove(path, unknown, y); }, kKeptPaths);
      EXPECT_NEAR(1 - MeanOf(above), request_.quantiles[q], kTolerance);
      const double density = MeanOf(OfPaths(
          [&](int64_t path) {
            return Expect(path, unknown,
                          [y](double m, double s) { return NormalDensity((y - m) / s) / s; });
          },
          kKeptPaths));
      EXPECT_NEAR(result.quantile_errors.at(at) * density, ErrorOf(above), kTolerance);
    }
  }

  static void ExpectMean(const FunctionalSummary& summary, int64_t group,
                         const std::vector<double>& of_paths) {
    EXPECT_TRUE(summary.conditional);
    EXPECT_NEAR(summary.means.at(group), MeanOf(of_paths), kTolerance);
    EXPECT_NEAR(summary.mean_errors.at(group), ErrorOf(of_paths), kTolerance);
  }

  SummarizeRequest request_;
  std::vector<int32_t> unknown_;
  Mixtures mixtures_;  // [B, U, M]
};

INSTANTIATE_TEST_SUITE_P(RowEncoders, EngineCpuEstimatesTest, ::testing::Values("feature_mean"));

TEST_P(EngineCpuEstimatesTest, RowsAndSumsOverRows) {
  auto request = MakeRequest<SummarizeRequest>(kRows);
  request.paths = kPaths;
  request.seed = 5;
  request.snapping = Snapping::kOff;
  request.quantiles = {0.02, 0.5, 0.9};
  request.known = {{3}, {0.7}};
  request.functionals = {
      {.type = FunctionalType::kSum, .rows = {1, 3, 5}, .weights = {2, 10, -3}},
      {.type = FunctionalType::kMean},
      {.type = FunctionalType::kCount, .threshold = 0.2},
      {.type = FunctionalType::kExcess, .rows = {0, 3}, .threshold = 1, .below = true},
      {.type = FunctionalType::kAny, .rows = {4}, .threshold = -0.5},
      {.type = FunctionalType::kImprovement, .rows = {4}, .threshold = 0.1, .below = true},
      {.type = FunctionalType::kMax},
      {.type = FunctionalType::kAny, .rows = {4, 5}, .threshold = -0.5},
  };
  Draw(request);
  const SummarizeResult result = Summarize(request);
  EXPECT_TRUE(result.conditional);
  ASSERT_EQ(result.means.size(), 5u);
  for (int64_t unknown = 0; unknown < 5; ++unknown) ExpectRow(result, unknown);

  // Of rows 0, 1, 2, 4 and 5.
  const std::vector<FunctionalSummary>& functionals = result.functionals;
  ExpectMean(functionals[0], 0, OfPaths([&](int64_t path) {
               return 2 * ExpectedValue(path, 1) + 7 - 3 * ExpectedValue(path, 4);
             }));
  ExpectMean(functionals[1], 0, OfPaths([&](int64_t path) {
               double sum = 0.7;
               for (int64_t unknown = 0; unknown < 5; ++unknown) {
                 sum += ExpectedValue(path, unknown);
               }
               return sum / 6;
             }));
  ExpectMean(functionals[2], 0, OfPaths([&](int64_t path) {
               double sum = 1;  // the known value
               for (int64_t unknown = 0; unknown < 5; ++unknown) {
                 sum += ProbabilityAbove(path, unknown, 0.2);
               }
               return sum;
             }));
  ExpectMean(functionals[3], 0,
             OfPaths([&](int64_t path) { return ExcessBelow(path, 0, 1) + 0.3; }));
  ExpectMean(functionals[4], 0,
             OfPaths([&](int64_t path) { return ProbabilityAbove(path, 3, -0.5); }));
  ExpectMean(functionals[5], 0, OfPaths([&](int64_t path) { return ExcessBelow(path, 3, 0.1); }));
  EXPECT_FALSE(functionals[6].conditional);
  EXPECT_FALSE(functionals[7].conditional);
}

TEST_P(EngineCpuEstimatesTest, EachGroupHasItsOwnSums) {
  auto request = MakeRequest<SummarizeRequest>(kRows);
  request.paths = kPaths;
  request.seed = 5;
  request.snapping = Snapping::kOff;
  request.quantiles = {0.5};
  request.group_sizes = {2, 4};
  request.functionals = {{.type = FunctionalType::kSum},
                         {.type = FunctionalType::kAll, .rows = {5, 0}, .threshold = 0.2}};
  Draw(request);
  const SummarizeResult result = Summarize(request);
  for (int64_t row = 0; row < kRows; ++row) ExpectRow(result, row);
  ExpectMean(result.functionals[0], 0, OfPaths([&](int64_t path) {
               return ExpectedValue(path, 0) + ExpectedValue(path, 1);
             }));
  ExpectMean(result.functionals[0], 1, OfPaths([&](int64_t path) {
               return ExpectedValue(path, 2) + ExpectedValue(path, 3) + ExpectedValue(path, 4) +
                      ExpectedValue(path, 5);
             }));
  ExpectMean(result.functionals[1], 0,
             OfPaths([&](int64_t path) { return ProbabilityAbove(path, 0, 0.2); }));
  ExpectMean(result.functionals[1], 1,
             OfPaths([&](int64_t path) { return ProbabilityAbove(path, 5, 0.2); }));
}

// The standard deviation of the estimates over seeds is as large as their errors say, with
// independent numbers and with Sobol points, and the conditional estimate has the smaller one.
TEST_P(EngineCpuEstimatesTest, ErrorsAreThoseOfTheEstimates) {
  auto request = MakeRequest<SummarizeRequest>(3);
  request.paths = 64;
  request.snapping = Snapping::kOff;
  request.quantiles = {0.9};
  request.functionals = {{.type = FunctionalType::kSum}};
  constexpr int kSeeds = 60;
  const auto measure = [&](Estimator estimator, Sampling sampling, const auto& error_of) {
    request.estimator = estimator;
    request.sampling = sampling;
    std::vector<double> means, quantiles, mean_errors, quantile_errors;
    for (int seed = 0; seed < kSeeds; ++seed) {
      request.seed = seed;
      const SummarizeResult result = Summarize(request);
      means.push_back(result.functionals[0].means[0]);
      mean_errors.push_back(result.functionals[0].mean_errors[0]);
      quantiles.push_back(result.quantiles[2]);
      quantile_errors.push_back(result.quantile_errors[2]);
    }
    error_of(means, mean_errors);
    error_of(quantiles, quantile_errors);
    return ErrorOf(means);
  };
  const auto expect = [](const std::vector<double>& estimates, const std::vector<double>& errors) {
    const double error = ErrorOf(estimates) * std::sqrt(kSeeds);
    EXPECT_NEAR(MeanOf(errors) / error, 1, 0.4);
  };
  const double values = measure(Estimator::kValues, Sampling::kIndependent, expect);
  const double conditional = measure(Estimator::kConditional, Sampling::kIndependent, expect);
  const double sobol = measure(Estimator::kValues, Sampling::kSobol, expect);
  EXPECT_LT(conditional, 0.7 * values);
  EXPECT_LT(sobol, 0.7 * values);
}

}  // namespace
}  // namespace chorale::testing
