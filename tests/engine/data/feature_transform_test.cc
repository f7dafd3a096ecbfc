#include "engine/data/feature_transform.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/data/make_column.h"
#include "tests/engine/data/random_dataset.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Sorted dictionary of city: Bern 0, Oslo 1, Rome 2; Rome is the most frequent.
Dataset Context() {
  Dataset dataset;
  dataset.features.columns = {
      Numbers("age", {1, kNan, 3, 8}),
      Categories("city", {"Rome", "Bern", "nowhere", "Oslo"}, {0, 1, 0, 3})};
  dataset.target = "y";
  dataset.y = {10, 20, 30, 60};
  return dataset;
}

ModelConfig Config(Normalization normalization) {
  ModelConfig config;
  config.normalize_x = normalization;
  config.normalize_y = normalization;
  return config;
}

FeatureTransform Fitted(const Dataset& context, Normalization normalization) {
  absl::StatusOr<FeatureTransform> transform =
      FeatureTransform::Fit(context, Config(normalization));
  EXPECT_TRUE(transform.ok()) << transform.status();
  return *std::move(transform);
}

TEST(FeatureTransformTest, ImputesAndEncodes) {
  const Dataset context = Context();
  const FeatureTransform transform = Fitted(context, Normalization::kNone);
  absl::StatusOr<FeatureMatrix> matrix = transform.Apply(context.features);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(matrix->rows, 4);
  EXPECT_EQ(matrix->features, 2);
  EXPECT_EQ(transform.features(), 2);
  EXPECT_THAT(matrix->x, ElementsAre(1, 2, 4, 0, 3, 2, 8, 1));
  EXPECT_THAT(matrix->missing, ElementsAre(0, 0, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(matrix->categorical, ElementsAre(0, 1));
  EXPECT_EQ(transform.y_mean(), 0);
  EXPECT_EQ(transform.y_std(), 1);
}

TEST(FeatureTransformTest, UnknownAndMissingCellsOfATable) {
  const FeatureTransform transform = Fitted(Context(), Normalization::kNone);
  // Columns in another order, with a dictionary of their own.
  Table table;
  table.columns = {Categories("city", {"Paris", "Oslo", "Bern", "nowhere"}, {0, 1, 2, -1, 3}),
                   Numbers("age", {5, kNan, -0.0, 7, 6})};
  absl::StatusOr<FeatureMatrix> matrix = transform.Apply(table);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  // "nowhere" never occurs in the context, so it is as unknown as Paris.
  EXPECT_THAT(matrix->x, ElementsAre(5, 2, 4, 1, 0, 0, 7, 2, 6, 2));
  EXPECT_THAT(matrix->missing, ElementsAre(0, 1, 1, 0, 0, 0, 0, 1, 0, 1));
  EXPECT_FALSE(std::signbit(matrix->x[4]));
}

TEST(FeatureTransformTest, NothingIsMarkedWhereNothingIsMissingOrCategorical) {
  Dataset context = Context();
  context.features.columns = {Numbers("age", {1, 2, 3, 8})};
  const FeatureTransform transform = Fitted(context, Normalization::kZScore);
  absl::StatusOr<FeatureMatrix> matrix = transform.Apply(context.features);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_TRUE(matrix->missing.empty());
  EXPECT_TRUE(matrix->categorical.empty());
}

TEST(FeatureTransformTest, ZScores) {
  const FeatureTransform transform = Fitted(Context(), Normalization::kZScore);
  absl::StatusOr<FeatureMatrix> matrix = transform.Apply(Context().features);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  // age: mean 4, variance (9 + 1 + 16) / 3. city: codes 2, 0, 2, 1: mean 1.25, variance 11/16.
  const double age = std::sqrt(26.0 / 3);
  const double city = std::sqrt(11.0 / 16);
  const double expected[] = {-3 / age, 0.75 / city, 0,       -1.25 / city,
                             -1 / age, 0.75 / city, 4 / age, -0.25 / city};
  for (int i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(matrix->x[i], expected[i]) << i;
  // y: mean 30, variance (400 + 100 + 0 + 900) / 4.
  EXPECT_DOUBLE_EQ(transform.y_mean(), 30);
  EXPECT_DOUBLE_EQ(transform.y_std(), std::sqrt(350.0));
  EXPECT_FLOAT_EQ(transform.ToModel(60), 30 / std::sqrt(350.0));
  EXPECT_DOUBLE_EQ(transform.ToUser(2), 30 + 2 * std::sqrt(350.0));
}

TEST(FeatureTransformTest, ConstantAndEmptyColumns) {
  Dataset context;
  context.features.columns = {
      Numbers("constant", {0.1, 0.1, 0.1}), Numbers("missing", {kNan, kNan, kNan}),
      Categories("none", {}, {-1, -1, -1}), Categories("one", {"a"}, {0, 0, -1})};
  context.target = "y";
  context.y = {0.7, 0.7, 0.7};
  const FeatureTransform transform = Fitted(context, Normalization::kZScore);
  EXPECT_THAT(transform.Apply(context.features)->x, testing::Each(0.0f));
  EXPECT_EQ(transform.ToModel(0.7), 0);
  EXPECT_DOUBLE_EQ(transform.ToUser(1), 1.4);
  Table targets;
  targets.columns = context.features.columns;
  targets.columns[0].numbers = {0.2, 0.0, -0.1};
  const absl::StatusOr<FeatureMatrix> matrix = transform.Apply(targets);
  EXPECT_EQ(matrix->x[0], 1);
  EXPECT_EQ(matrix->x[4], -1);
  EXPECT_EQ(matrix->x[8], -2);
}

// What a model sees does not depend on the unit, nor do its answers in that unit.
TEST(FeatureTransformTest, EveryUnitIsTheSame) {
  for (const std::vector<double>& numbers :
       {std::vector<double>{3, 3, 3}, {3}, {-3, -3}, {1, 5, 2.5}, {0, 0}}) {
    for (const int exponent : {-1022, -1000, -30, 0, 30, 880}) {
      SCOPED_TRACE(absl::StrCat(numbers.size(), " numbers in units of 2^", -exponent));
      const auto transform_of = [&](double unit) {
        Dataset context;
        context.features.columns = {Numbers("x", numbers)};
        context.target = "y";
        context.y = numbers;
        for (double& x : context.features.columns[0].numbers) x *= unit;
        for (double& y : context.y) y *= unit;
        return Fitted(context, Normalization::kZScore);
      };
      const double unit = std::ldexp(1, exponent);
      const FeatureTransform here = transform_of(1);
      const FeatureTransform there = transform_of(unit);
      if (numbers[0] == 0) continue;  // nothing says what its unit is
      Table targets;
      targets.columns = {Numbers("x", {2, -1})};
      const std::vector<float> expected = here.Apply(targets)->x;
      for (double& x : targets.columns[0].numbers) x *= unit;
      EXPECT_EQ(there.Apply(targets)->x, expected);
      EXPECT_EQ(there.ToModel(4 * unit), here.ToModel(4));
      EXPECT_DOUBLE_EQ(there.ToUser(0.5), here.ToUser(0.5) * unit);
    }
  }
}

// Of the smallest numbers there are, too, as far as they can be told apart.
TEST(FeatureTransformTest, SubnormalTargets) {
  for (const std::vector<double>& y :
       {std::vector<double>{1e-310, 1e-310}, {1e-308}, {1e-310, 3e-310}, {5e-324}, {0, 5e-324}}) {
    Dataset context;
    context.features.columns = {Numbers("x", std::vector<double>(y.size(), 1))};
    context.target = "y";
    context.y = y;
    const FeatureTransform transform = Fitted(context, Normalization::kZScore);
    for (const double value : y) EXPECT_LE(std::abs(transform.ToModel(value)), 2);
    EXPECT_LT(std::abs(transform.ToUser(3)), 1e-306);
    EXPECT_GT(transform.y_std(), 0);
  }
}

TEST(FeatureTransformTest, FitPromisesFiniteAnswers) {
  const float largest = std::numeric_limits<float>::max();
  for (const std::vector<double>& y :
       {std::vector<double>{1e269, -1e269}, {1e269}, {8e307, -8e307}, {1e308}, {1e307, 0, 0}}) {
    Dataset context;
    context.features.columns = {Numbers("x", std::vector<double>(y.size(), 1))};
    context.target = "price";
    context.y = y;
    const auto transform = FeatureTransform::Fit(context, Config(Normalization::kZScore));
    if (std::abs(y[0]) <= 1e269) {
      ASSERT_TRUE(transform.ok()) << transform.status();
      EXPECT_TRUE(std::isfinite(transform->ToUser(largest)));
      EXPECT_TRUE(std::isfinite(transform->ToUser(-largest)));
    } else {
      EXPECT_EQ(ErrorField(transform.status()), "rows.columns[\"price\"]") << transform.status();
    }
  }
}

TEST(FeatureTransformTest, TiesGoToTheFirstCategory) {
  Dataset context = Context();
  context.features.columns[1].codes = {3, 1, 1, 3};  // Bern and Oslo twice each
  context.features.columns[1].codes.back() = kMissingCode;
  context.features.columns[1].codes[2] = kMissingCode;
  const FeatureTransform transform = Fitted(context, Normalization::kNone);
  EXPECT_EQ(transform.Apply(context.features)->x[5], 0);  // Bern
}

TEST(FeatureTransformTest, NumberingOfCategoriesDoesNotMatter) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 200; ++i) {
    Dataset context = RandomDataset(random);
    for (Column& column : context.features.columns) {
      for (double& x : column.numbers) x = x == -1e300 ? -7 : x;  // fits float32
    }
    const Dataset renumbered = Renumbered(context, random);
    const FeatureTransform a = Fitted(context, Normalization::kZScore);
    const FeatureTransform b = Fitted(renumbered, Normalization::kZScore);
    EXPECT_EQ(a.Apply(context.features)->x, b.Apply(context.features)->x);
    EXPECT_EQ(a.Apply(context.features)->x, a.Apply(renumbered.features)->x);
    const absl::StatusOr<FeatureMatrix> matrix = a.Apply(context.features);
    for (const float x : matrix->x) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(FeatureTransformTest, FitRefusesWhatFloat32CannotHold) {
  Dataset context = Context();
  context.features.columns[0].numbers[2] = 1e39;
  absl::Status status = FeatureTransform::Fit(context, Config(Normalization::kNone)).status();
  EXPECT_EQ(ErrorField(status), "rows.columns[\"age\"].numeric.values[2]") << status;
  EXPECT_TRUE(FeatureTransform::Fit(context, Config(Normalization::kZScore)).ok());

  context = Context();
  context.y[3] = -1e39;
  status = FeatureTransform::Fit(context, Config(Normalization::kNone)).status();
  EXPECT_EQ(ErrorField(status), "rows.columns[\"y\"].numeric.values[3]") << status;

  context = Context();
  context.features.columns[0].numbers = {1.7e308, -1.7e308, -1.7e308, -1.7e308};
  status = FeatureTransform::Fit(context, Config(Normalization::kZScore)).status();
  EXPECT_EQ(ErrorField(status), "rows.columns[\"age\"]") << status;
}

TEST(FeatureTransformTest, FitRefusesMoreFeaturesThanTheModelTakes) {
  ModelConfig config = Config(Normalization::kNone);
  config.max_features = 1;
  const absl::Status status = FeatureTransform::Fit(Context(), config).status();
  EXPECT_EQ(ErrorField(status), "rows.columns");
  EXPECT_THAT(status.message(), HasSubstr("has 2 feature columns; the model takes 1"));
  config.max_features = 2;
  EXPECT_TRUE(FeatureTransform::Fit(Context(), config).ok());
}

TEST(FeatureTransformTest, ApplyRefuses) {
  const FeatureTransform transform = Fitted(Context(), Normalization::kNone);
  Table table;
  table.columns = {Numbers("age", {1, -4e38}), Categories("city", {"Rome"}, {0, 0})};
  absl::Status status = transform.Apply(table).status();
  EXPECT_EQ(ErrorField(status), "targets.columns[\"age\"].numeric.values[1]");
  EXPECT_THAT(status.message(), HasSubstr("float32"));
  // What MatchTargets refuses for this context.
  table.columns = {Categories("city", {"Rome"}, {0, 1}), Numbers("age", {1, 2})};
  status = transform.Apply(table).status();
  EXPECT_EQ(ErrorField(status), "targets.columns[\"city\"].categorical.codes[1]");
  table.columns.pop_back();
  EXPECT_EQ(ErrorField(transform.Apply(table).status()), "targets.columns");
}

}  // namespace
}  // namespace chorale
