#include "engine/session/target_errors.h"

#include <functional>
#include <limits>
#include <string>

#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<int64_t> CheckpointsOf(int64_t paths, TargetErrors targets) {
  SummarizeRequest request;
  request.paths = paths;
  request.target_errors = targets;
  return Checkpoints(request);
}

TEST(CheckpointsTest, ArePowersOfTwoAndTheirMiddlesUpToAllPaths) {
  const TargetErrors targets{.mean = 1, .quantile = 0};
  EXPECT_THAT(CheckpointsOf(2000, targets), ElementsAre(256, 384, 512, 768, 1024, 1536, 2000));
  EXPECT_THAT(CheckpointsOf(1536, targets), ElementsAre(256, 384, 512, 768, 1024, 1536));
  EXPECT_THAT(CheckpointsOf(1537, targets), ElementsAre(256, 384, 512, 768, 1024, 1536, 1537));
  EXPECT_THAT(CheckpointsOf(385, {.mean = 0, .quantile = 1}), ElementsAre(256, 384, 385));
  EXPECT_THAT(CheckpointsOf(384, targets), ElementsAre(256, 384));
  EXPECT_THAT(CheckpointsOf(257, targets), ElementsAre(256, 257));
  EXPECT_THAT(CheckpointsOf(256, targets), ElementsAre(256));
  EXPECT_THAT(CheckpointsOf(10, targets), ElementsAre(10));
}

TEST(CheckpointsTest, WithoutTargetsThereIsOne) {
  EXPECT_THAT(CheckpointsOf(2000, {}), ElementsAre(2000));
  SummarizeRequest request;
  request.paths = 300;
  request.functionals.resize(2);
  EXPECT_THAT(Checkpoints(request), ElementsAre(300));
  request.functionals[1].target_errors.mean = 1;
  EXPECT_THAT(Checkpoints(request), ElementsAre(256, 300));
}

TEST(MeetsTargetErrorsTest, EachErrorIsComparedWithItsOwnTarget) {
  SummarizeRequest request;
  request.quantiles = {0.5};
  request.functionals.resize(2);
  SummarizeResult result;
  result.mean_errors = {1, 3};
  result.quantile_errors = {2, 4};
  result.functionals.resize(2);
  result.functionals[0].mean_errors = {5};
  result.functionals[1].mean_errors = {7, 6};
  result.functionals[1].quantile_errors = {9, 8};
  EXPECT_TRUE(MeetsTargetErrors(request, result)) << "there are no targets";
  // A target is met if it is at least the largest of its errors.
  const auto expect = [&](double* target, double largest) {
    *target = largest;
    EXPECT_TRUE(MeetsTargetErrors(request, result)) << largest;
    *target = 0.999 * largest;
    EXPECT_FALSE(MeetsTargetErrors(request, result)) << largest;
    *target = largest;
  };
  expect(&request.target_errors.mean, 3);
  expect(&request.target_errors.quantile, 4);
  expect(&request.functionals[0].target_errors.mean, 5);
  expect(&request.functionals[1].target_errors.mean, 7);
  expect(&request.functionals[1].target_errors.quantile, 9);
  result.mean_errors[0] = kNan;
  EXPECT_FALSE(MeetsTargetErrors(request, result));
}

TEST(ValidateTargetErrorsTest, Fields) {
  const auto field = [](const std::function<void(SummarizeRequest&)>& change) {
    SummarizeRequest request;
    request.quantiles = {0.5};
    request.functionals.resize(2);
    change(request);
    return ErrorField(ValidateTargetErrors(request));
  };
  EXPECT_EQ(field([](auto& r) {}), "");
  EXPECT_EQ(field([](auto& r) { r.target_errors = {.mean = 1, .quantile = 2}; }), "");
  for (const double bad : {-1.0, kNan, kInfinity}) {
    EXPECT_EQ(field([=](auto& r) { r.target_errors.mean = bad; }), "target_mean_error");
    EXPECT_EQ(field([=](auto& r) { r.target_errors.quantile = bad; }), "target_quantile_error");
    EXPECT_EQ(field([=](auto& r) { r.functionals[1].target_errors.mean = bad; }),
              "functionals[1].target_mean_error");
    EXPECT_EQ(field([=](auto& r) { r.functionals[1].target_errors.quantile = bad; }),
              "functionals[1].target_quantile_error");
  }
  EXPECT_EQ(field([](auto& r) {
              r.quantiles.clear();
              r.target_errors.quantile = 1;
            }),
            "target_quantile_error");
  EXPECT_EQ(field([](auto& r) {
              r.quantiles.clear();
              r.functionals[0].target_errors.quantile = 1;
            }),
            "functionals[0].target_quantile_error");
  EXPECT_EQ(field([](auto& r) {
              r.functionals[0].type = FunctionalType::kRank;
              r.functionals[0].target_errors = {.mean = 1, .quantile = 0};
            }),
            "");
  EXPECT_EQ(field([](auto& r) {
              r.functionals[0].type = FunctionalType::kRank;
              r.functionals[0].target_errors.quantile = 1;
            }),
            "functionals[0].target_quantile_error");
}

}  // namespace
}  // namespace chorale
