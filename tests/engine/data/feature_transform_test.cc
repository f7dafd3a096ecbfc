#include "engine/data/feature_transform.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "engine/data/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/data/random_dataset.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Column Numbers(std::string name, std::vector<double> numbers) {
  Column column;
  column.name = std::move(name);
  column.numbers = std::move(numbers);
  return column;
}

Column Categories(std::string name, std::vector<std::string> categories,
                  std::vector<int32_t> codes) {
  Column column;
  column.name = std::move(name);
  column.type = ColumnType::kCategorical;
  column.categories = std::move(categories);
  column.codes = std::move(codes);
  return column;
}

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
  EXPECT_FALSE(std::signbit(matrix->x[4]));
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
  EXPECT_DOUBLE_EQ(transform.ToUser(1), 1.7);
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

void ExpectRefused(std::vector<Column> columns, const std::string& field,
                   const std::string& message) {
  const FeatureTransform transform = Fitted(Context(), Normalization::kNone);
  Table table;
  table.columns = std::move(columns);
  const absl::Status status = transform.Apply(table).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorField(status), field);
  EXPECT_THAT(status.message(), HasSubstr(message));
}

TEST(FeatureTransformTest, ApplyRefuses) {
  const Column age = Numbers("age", {1, 2});
  const Column city = Categories("city", {"Rome"}, {0, 0});
  ExpectRefused({}, "targets.columns", "\"age\" is missing");
  ExpectRefused({age}, "targets.columns",
                "the column \"city\" is missing; the context's feature columns are \"age\" "
                "(numeric), \"city\" (categorical)");
  ExpectRefused({age, city, Numbers("extra", {1, 2})}, "targets.columns[\"extra\"]",
                "is no feature column of the context");
  ExpectRefused({age, city, Numbers("y", {1, 2})}, "targets.columns[\"y\"]",
                "is no feature column of the context");
  ExpectRefused({age, city, age}, "targets.columns", "two columns have the name \"age\"");
  ExpectRefused({age, Numbers("city", {1, 2})}, "targets.columns[\"city\"]",
                "is numeric but categorical in the context");
  ExpectRefused({Categories("age", {"1"}, {0, 0}), city}, "targets.columns[\"age\"]",
                "is categorical but numeric in the context");
  ExpectRefused({Numbers("age", {1}), city}, "targets.columns[\"city\"].categorical.codes",
                "has 2 cells where the table has 1 rows");
  ExpectRefused({Numbers("age", {}), Categories("city", {}, {})}, "targets", "at least one row");
  ExpectRefused({Numbers("age", {1, INFINITY}), city}, "targets.columns[\"age\"].numeric.values[1]",
                "infinite");
  ExpectRefused({Numbers("age", {-4e38, 1}), city}, "targets.columns[\"age\"].numeric.values[0]",
                "float32");
  ExpectRefused({age, Categories("city", {"Rome"}, {0, 1})},
                "targets.columns[\"city\"].categorical.codes[1]", "is 1");
}

TEST(FeatureTransformTest, LongListsOfColumnsAreCutShort) {
  Dataset context;
  for (int i = 0; i < 100; ++i) {
    context.features.columns.push_back(Numbers(absl::StrCat("f", i), {1}));
  }
  context.target = "y";
  context.y = {1};
  const absl::Status status = Fitted(context, Normalization::kNone).Apply(Table()).status();
  EXPECT_THAT(status.message(), HasSubstr("\"f7\" (numeric) and 92 more"));
}

}  // namespace
}  // namespace chorale
