// Summarize with target errors over the real CPU backend: the result is that of a call for the
// number of paths at which the errors meet their targets.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/cpu_engine_fixture.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

constexpr int64_t kMostPaths = 1'200;
constexpr int64_t kRows = 6;

class EngineCpuTargetErrorsTest : public CpuEngineFixture {
 protected:
  SummarizeRequest MakeSummarize() const {
    auto request = MakeRequest<SummarizeRequest>(kRows);
    request.paths = kMostPaths;
    request.seed = 5;
    request.snapping = Snapping::kOff;
    request.quantiles = {0.1, 0.5};
    request.want_covariances = true;
    request.returned_paths = 300;
    request.functionals = {{.type = FunctionalType::kSum},
                           {.type = FunctionalType::kCount, .threshold = 0.1},
                           {.type = FunctionalType::kRank}};
    return request;
  }

  SummarizeResult Summarize(const SummarizeRequest& request) {
    Answer<SummarizeResult> answer;
    engine_->Summarize({.tenant = kTenant}, request, answer.callback());
    return answer.Wait().value();
  }

  // The result of the request for `paths` paths, without target errors.
  SummarizeResult Alone(SummarizeRequest request, int64_t paths) {
    request.paths = paths;
    request.returned_paths = std::min(request.returned_paths, paths);
    request.target_errors = {};
    for (Functional& functional : request.functionals) functional.target_errors = {};
    if (request.known.sets() > 1) request.known.values.resize(paths * request.known.count());
    return Summarize(request);
  }

  static void ExpectEqual(const SummarizeResult& a, const SummarizeResult& b) {
    EXPECT_EQ(a.path_count, b.path_count);
    EXPECT_EQ(a.seed, b.seed);
    EXPECT_EQ(a.means, b.means);
    EXPECT_EQ(a.mean_errors, b.mean_errors);
    EXPECT_EQ(a.stds, b.stds);
    EXPECT_EQ(a.quantiles, b.quantiles);
    EXPECT_EQ(a.quantile_errors, b.quantile_errors);
    EXPECT_EQ(a.conditional, b.conditional);
    EXPECT_EQ(a.covariances, b.covariances);
    EXPECT_EQ(a.paths, b.paths);
    EXPECT_EQ(a.known_log_densities, b.known_log_densities);
    ASSERT_EQ(a.functionals.size(), b.functionals.size());
    for (size_t f = 0; f < a.functionals.size(); ++f) {
      const FunctionalSummary& x = a.functionals[f];
      const FunctionalSummary& y = b.functionals[f];
      EXPECT_EQ(x.means, y.means) << f;
      EXPECT_EQ(x.mean_errors, y.mean_errors) << f;
      EXPECT_EQ(x.stds, y.stds) << f;
      EXPECT_EQ(x.quantiles, y.quantiles) << f;
      EXPECT_EQ(x.quantile_errors, y.quantile_errors) << f;
      EXPECT_EQ(x.conditional, y.conditional) << f;
    }
  }

  // The largest error of the mean of the sum after `paths` paths.
  double ErrorAfter(const SummarizeRequest& request, int64_t paths) {
    const SummarizeResult there = Alone(request, paths);
    const std::vector<double>& errors = there.functionals[0].mean_errors;
    return *std::max_element(errors.begin(), errors.end());
  }

  // Sets the target of the mean of the sum to its error after 384 paths, and expects that the call
  // stops at the first checkpoint with this error.
  void ExpectStop(SummarizeRequest request) {
    const double target = ErrorAfter(request, 384);
    const int64_t paths = ErrorAfter(request, 256) <= target ? 256 : 384;
    request.functionals[0].target_errors.mean = target;
    const SummarizeResult result = Summarize(request);
    EXPECT_EQ(result.path_count, paths);
    ExpectEqual(result, Alone(request, paths));
  }
};

INSTANTIATE_TEST_SUITE_P(RowEncoders, EngineCpuTargetErrorsTest, ::testing::Values("feature_mean"));

TEST_P(EngineCpuTargetErrorsTest, StopsAtTheFirstCheckpointThatMeetsTheTarget) {
  SummarizeRequest request = MakeSummarize();
  const double first = ErrorAfter(request, 256);
  const double second = ErrorAfter(request, 384);
  const double fourth = ErrorAfter(request, 768);
  ASSERT_GT(first, second);
  ASSERT_GT(second, fourth);
  ASSERT_GT(ErrorAfter(request, 512), fourth);
  for (const auto& [target, paths] :
       {std::pair(first, 256), std::pair(second, 384), std::pair(fourth, 768)}) {
    request.functionals[0].target_errors.mean = target;
    const SummarizeResult result = Summarize(request);
    EXPECT_EQ(result.path_count, paths);
    ExpectEqual(result, Alone(request, paths));
  }
}

TEST_P(EngineCpuTargetErrorsTest, DrawsAllPathsIfTheTargetIsNotMet) {
  SummarizeRequest request = MakeSummarize();
  request.target_errors.mean = 1e-9;
  const SummarizeResult result = Summarize(request);
  EXPECT_EQ(result.path_count, kMostPaths);
  ExpectEqual(result, Alone(request, kMostPaths));
}

TEST_P(EngineCpuTargetErrorsTest, ComparesTheErrorsOfQuantilesOfRowsAndFunctionals) {
  SummarizeRequest request = MakeSummarize();
  request.estimator = Estimator::kValues;
  const SummarizeResult there = Alone(request, 768);
  const auto largest = [](const std::vector<double>& errors) {
    return *std::max_element(errors.begin(), errors.end());
  };
  request.target_errors.quantile = largest(there.quantile_errors);
  const SummarizeResult by_rows = Summarize(request);
  EXPECT_LE(by_rows.path_count, 768);
  EXPECT_GT(by_rows.path_count, 256);
  ExpectEqual(by_rows, Alone(request, by_rows.path_count));
  request.target_errors = {};
  request.functionals[0].target_errors.quantile = largest(there.functionals[0].quantile_errors);
  const SummarizeResult by_sum = Summarize(request);
  EXPECT_LE(by_sum.path_count, 768);
  ExpectEqual(by_sum, Alone(request, by_sum.path_count));
}

TEST_P(EngineCpuTargetErrorsTest, ValuesAndSobolPoints) {
  SummarizeRequest request = MakeSummarize();
  request.estimator = Estimator::kValues;
  ExpectStop(request);
  request.estimator = Estimator::kConditional;
  request.sampling = Sampling::kSobol;
  request.functionals[0].target_errors.mean = 1e-9;
  const SummarizeResult result = Summarize(request);
  EXPECT_EQ(result.path_count, kMostPaths);
  ExpectEqual(result, Alone(request, kMostPaths));
}

TEST_P(EngineCpuTargetErrorsTest, RandomOrdersAndLaterPaths) {
  SummarizeRequest request = MakeSummarize();
  request.order = RowOrder::kRandomPerPath;
  request.first_path = 77;
  ExpectStop(request);
}

// Groups of different sizes, one of them with known values of each path.
TEST_P(EngineCpuTargetErrorsTest, GroupsAndKnownValuesOfEachPath) {
  SummarizeRequest request = MakeSummarize();
  request.group_sizes = {1, 3, 2};
  request.known.rows = {2};
  for (int64_t path = 0; path < kMostPaths; ++path) {
    request.known.values.push_back(0.001 * static_cast<double>(path));
  }
  ExpectStop(request);
}

// More numbers of paths than are kept for conditional means of functionals, from some round on.
TEST_P(EngineCpuTargetErrorsTest, ConditionalMeansOfAsManyFunctionalsAsInACallAlone) {
  SummarizeRequest request = MakeSummarize();
  request.query_rows = MakeTargets(640);
  request.beyond_buffer = BeyondBuffer::kWrap;
  request.group_sizes.assign(640, 1);
  request.quantiles.clear();
  request.want_covariances = false;
  request.returned_paths = 0;
  request.functionals.assign(6, {.type = FunctionalType::kSum});
  request.functionals.push_back({.type = FunctionalType::kMax});
  request.paths = 400;  // 640 * 6 * 256 are kept, 640 * 6 * 384 not all
  request.functionals.back().target_errors.mean = 1e9;
  const SummarizeResult early = Summarize(request);
  EXPECT_TRUE(early.functionals[5].conditional);
  ExpectEqual(early, Alone(request, 256));
  request.functionals.back().target_errors.mean = 1e-9;
  const SummarizeResult result = Summarize(request);
  EXPECT_TRUE(result.functionals[3].conditional);
  EXPECT_FALSE(result.functionals[5].conditional);
  ExpectEqual(result, Alone(request, 400));
}

}  // namespace
}  // namespace chorale::testing
