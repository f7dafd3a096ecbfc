#include "engine/data/feature_transform.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/data/column_statistics.h"
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

// The columns of `numbers`, scaled over `context`, as a matrix of one feature or more.
FeatureMatrix Scaled(const std::vector<Column>& context, const std::vector<Column>& asked,
                     std::vector<ColumnNote>* notes = nullptr) {
  Dataset dataset;
  dataset.features.columns = context;
  dataset.target = "y";
  for (int64_t row = 0; row < context[0].rows(); ++row) dataset.y.push_back(row);
  Table table;
  table.columns = asked;
  absl::StatusOr<FeatureMatrix> matrix =
      Fitted(dataset, Normalization::kZScore).Apply(table, notes);
  EXPECT_TRUE(matrix.ok()) << matrix.status();
  return matrix.ok() ? *std::move(matrix) : FeatureMatrix();
}

// Such a column changes nothing, whatever is asked there, of whatever type.
TEST(FeatureTransformTest, ColumnsThatSayNothingAreLeftOut) {
  const Column x = Numbers("x", {1, 2, 4});
  const Column asked = Numbers("x", {3, 0, 5});
  const FeatureMatrix expected = Scaled({x}, {asked});
  const std::vector<Column> silent = {
      Numbers("c", {2024, 2024, 2024}), Numbers("c", {0, 0, 0}), Numbers("c", {kNan, kNan, kNan}),
      Categories("c", {}, {-1, -1, -1}), Categories("c", {"a", "unused"}, {0, 0, 0})};
  const std::vector<std::pair<Column, std::vector<int>>> requests = {
      {Numbers("c", {2025, 1.7e12, 2024}), {2, 3, 3, 3, 3}},
      {Numbers("c", {kNan, kNan, 0}), {3, 2, 1, 1, 3}},
      {Categories("c", {"a", "b"}, {1, 0, -1}), {3, 3, 2, 2, 2}}};
  for (size_t i = 0; i < silent.size(); ++i) {
    for (const auto& [request, different] : requests) {
      std::vector<ColumnNote> notes;
      const FeatureMatrix matrix = Scaled({silent[i], x}, {asked, request}, &notes);
      EXPECT_EQ(matrix.features, 1);
      EXPECT_EQ(matrix.x, expected.x);
      EXPECT_TRUE(matrix.missing.empty());
      EXPECT_TRUE(matrix.categorical.empty());
      ASSERT_EQ(notes.size(), 1u);
      EXPECT_EQ(notes[0].column, "c");
      EXPECT_TRUE(notes[0].left_out);
      EXPECT_EQ(notes[0].ignored, different[i]) << i;
    }
  }
}

// "u" with two dots, as one code point and as two.
TEST(FeatureTransformTest, ATextThatLooksEqualIsNoDifference) {
  std::vector<ColumnNote> notes;
  Scaled({Numbers("x", {1, 2}), Categories("c", {"S\u00fcd"}, {0, 0})},
         {Numbers("x", {1, 2}), Categories("c", {"Su\u0308d"}, {0, 0})}, &notes);
  EXPECT_TRUE(notes.empty());
}

TEST(FeatureTransformTest, WhereNoColumnIsLeftThereIsOneOfZeros) {
  const FeatureMatrix matrix = Scaled({Numbers("a", {3, 3}), Categories("b", {"z"}, {0, 0})},
                                      {Numbers("a", {4, kNan}), Categories("b", {"y"}, {0, -1})});
  EXPECT_EQ(matrix.features, 1);
  EXPECT_THAT(matrix.x, ElementsAre(0, 0));
  EXPECT_TRUE(matrix.missing.empty());
}

// The missing cells may say something; the numbers do not.
TEST(FeatureTransformTest, ConstantWithMissingCells) {
  std::vector<ColumnNote> notes;
  const FeatureMatrix matrix =
      Scaled({Numbers("c", {0.1, kNan, 0.1})}, {Numbers("c", {0.1, kNan, 1e9})}, &notes);
  EXPECT_THAT(matrix.x, ElementsAre(0, 0, 0));
  EXPECT_THAT(matrix.missing, ElementsAre(0, 1, 0));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].replaced_by_nearest, 1);
  EXPECT_FALSE(notes[0].left_out);
}

TEST(FeatureTransformTest, WhatAnAllButConstantColumnHasNotIsItsNearest) {
  std::vector<double> years(200, 2024);
  years[7] = 2023;
  std::vector<ColumnNote> notes;
  const FeatureMatrix matrix =
      Scaled({Numbers("year", years)},
             {Numbers("year", {2024, 2025, 1e300, 2023.6, 2023, 2023.5, 1999, -1e308})}, &notes);
  const float usual = matrix.x[0];
  const float other = matrix.x[4];
  EXPECT_NE(usual, other);
  EXPECT_THAT(matrix.x, ElementsAre(usual, usual, usual, usual, other, other, other, other));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].replaced_by_nearest, 6);
}

// One corrupt cell moves the others by little, and is noted; so is one that is asked for.
TEST(FeatureTransformTest, FarOutsideTheBulk) {
  std::vector<double> clean(120);
  for (int i = 0; i < 120; ++i) clean[i] = std::sin(i);
  std::vector<double> corrupt = clean;
  corrupt[5] = 999999;
  const FeatureMatrix expected = Scaled({Numbers("x", clean)}, {Numbers("x", clean)});
  std::vector<ColumnNote> notes;
  const FeatureMatrix matrix = Scaled({Numbers("x", corrupt)}, {Numbers("x", corrupt)}, &notes);
  // 21 scales out instead of 10^6, so that the unit of all others is not a hundred thousand times
  // as large but three times: the distances between them are kept to that.
  const float kept = (matrix.x[20] - matrix.x[9]) / (expected.x[20] - expected.x[9]);
  EXPECT_GT(kept, 0.3);
  for (int i = 10; i < 120; ++i) {
    EXPECT_NEAR(matrix.x[i] - matrix.x[9], (expected.x[i] - expected.x[9]) * kept, 1e-5) << i;
  }
  EXPECT_LT(matrix.x[5], 15);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].outside_bulk, 1);
  for (const double x : {1e300, -1e300}) {
    const FeatureMatrix far = Scaled({Numbers("x", clean)}, {Numbers("x", {x})}, &notes);
    EXPECT_LT(std::abs(far.x[0]), 2000);  // 1.5 (8 + log(1e300))
  }
}

// A long tail, dummies and flags are no surprise; what is far beyond a tail is one.
TEST(FeatureTransformTest, OnlyWhatIsFarFromAllOthersIsNoted) {
  std::vector<double> tail(300);
  std::vector<double> flag(300);
  for (int i = 0; i < 300; ++i) {
    tail[i] = std::exp(1.5 * std::sqrt(12.0) * (std::fmod(i * std::sqrt(2.0), 1.0) - 0.5));
    flag[i] = i % 20 == 7 ? 1 : 0;
  }
  tail[0] = 60;  // 60 times the median; 20 scales
  for (const auto& cells : {tail, flag}) {
    std::vector<ColumnNote> notes;
    Scaled({Numbers("x", cells)}, {Numbers("x", cells)}, &notes);
    EXPECT_TRUE(notes.empty());
  }
  std::vector<ColumnNote> notes;
  Scaled({Numbers("x", tail)}, {Numbers("x", {60, 200, 1000, -1000})}, &notes);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].outside_bulk, 2);
}

// Of a column of dates by which no season is sought, the registration says why.
TEST(FeatureTransformTest, DatesThatAreNoIndexAreNoted) {
  Dataset context;
  context.target = "y";
  std::vector<double> days;
  for (int i = 0; i < 40; ++i) {
    days.push_back(19000 + i / 2);
    context.y.push_back(std::sin(i * i));
  }
  ModelConfig config;
  config.normalize_x = Normalization::kZScore;
  config.season_column = SeasonColumn::kPhase;
  for (const Meaning meaning : {Meaning::kDate, Meaning::kNumber}) {
    Column column = Numbers("day", days);
    column.meaning = meaning;
    context.features.columns = {column};
    const auto transform = FeatureTransform::Fit(context, config);
    ASSERT_TRUE(transform.ok()) << transform.status();
    ASSERT_EQ(transform->context_notes().size(), meaning == Meaning::kDate ? 1u : 0u);
    if (meaning == Meaning::kDate) {
      EXPECT_THAT(transform->context_notes()[0].no_index, ::testing::HasSubstr("values repeat"));
    }
  }
}

// Where nothing lies outside the bulk, and nothing says nothing, the numbers are z-scores.
TEST(FeatureTransformTest, InTheBulkTheBitsAreThoseOfZScores) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal(3, 2);
  std::vector<double> numbers(300);
  for (double& x : numbers) x = normal(random);
  const ColumnStatistics statistics = ComputeStatistics(numbers);
  const FeatureMatrix matrix = Scaled({Numbers("x", numbers)}, {Numbers("x", numbers)});
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(matrix.x[i], static_cast<float>((numbers[i] - statistics.mean) / statistics.std));
  }
}

// An error in the context's y is brought back; what is asked and answered is linear.
TEST(FeatureTransformTest, Targets) {
  Dataset context;
  context.features.columns = {Numbers("x", {1, 2, 3, 4, 5, 6, 7, 8})};
  context.target = "y";
  context.y = {1, 2, 3, 4, 5, 6, 7, 1e6};
  const FeatureTransform transform = Fitted(context, Normalization::kZScore);
  // The median is 4.5, the scale 3.5 / 1.349; the farthest of the others is 3.5 away, which is less
  // than two scales.
  EXPECT_FLOAT_EQ(transform.ContextToModel(1e6), transform.ToModel(4.5 + 2 * 3.5 / 1.349));
  EXPECT_EQ(transform.ContextToModel(4), transform.ToModel(4));
  EXPECT_GT(transform.ToModel(1e6), 1e4);
  EXPECT_NEAR(transform.ToUser(transform.ToModel(1e6)), 1e6, 1);
  ASSERT_EQ(transform.context_notes().size(), 1u);
  EXPECT_EQ(transform.context_notes()[0].column, "y");
  EXPECT_EQ(transform.context_notes()[0].clipped_targets, 1);
}

// All equal, as of a single row: scaled by their magnitude.
TEST(FeatureTransformTest, ConstantTargets) {
  Dataset context;
  context.features.columns = {Numbers("x", {1, 2, 4})};
  context.target = "y";
  context.y = {0.7, 0.7, 0.7};
  const FeatureTransform transform = Fitted(context, Normalization::kZScore);
  EXPECT_EQ(transform.ToModel(0.7), 0);
  EXPECT_EQ(transform.ContextToModel(0.7), 0);
  EXPECT_DOUBLE_EQ(transform.ToUser(1), 1.4);
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
      Table query_rows;
      query_rows.columns = {Numbers("x", {2, -1})};
      const std::vector<float> expected = here.Apply(query_rows)->x;
      for (double& x : query_rows.columns[0].numbers) x *= unit;
      EXPECT_EQ(there.Apply(query_rows)->x, expected);
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

// Constant columns are left out, so the model never sees them.
TEST(FeatureTransformTest, OnlyFeaturesThatTheModelSeesCountAgainstItsMaximum) {
  ModelConfig config = Config(Normalization::kZScore);
  config.max_features = 2;
  Dataset context = Context();
  for (int i = 0; i < 3; ++i) {
    context.features.columns.push_back(Numbers(absl::StrCat("constant ", i), {7, 7, 7, 7}));
  }
  const absl::StatusOr<FeatureTransform> transform = FeatureTransform::Fit(context, config);
  ASSERT_TRUE(transform.ok()) << transform.status();
  EXPECT_EQ(transform->Apply(context.features)->features, 2);
  config.max_features = 1;
  const absl::Status status = FeatureTransform::Fit(context, config).status();
  EXPECT_EQ(ErrorField(status), "rows.columns");
  EXPECT_THAT(status.message(), HasSubstr("has 5 feature columns, of which 3 are constant or "
                                          "empty, and are dropped; the model takes 1"));
}

TEST(FeatureTransformTest, WhatNumbersMeanChangesNoBit) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100; ++i) {
    Dataset plain = RandomDataset(random);
    for (Column& column : plain.features.columns) column.meaning = Meaning::kNumber;
    Dataset dates = plain;
    for (Column& column : dates.features.columns) {
      if (column.type == ColumnType::kNumeric) column.meaning = Meaning::kDate;
    }
    const FeatureTransform of_plain = Fitted(plain, Normalization::kZScore);
    const FeatureTransform of_dates = Fitted(dates, Normalization::kZScore);
    const FeatureMatrix expected = *of_plain.Apply(plain.features);
    for (const Table* table : {&plain.features, &dates.features}) {
      const FeatureMatrix matrix = *of_dates.Apply(*table);
      EXPECT_EQ(matrix.x, expected.x);
      EXPECT_EQ(matrix.missing, expected.missing);
    }
  }
}

TEST(FeatureTransformTest, NotesWhereNoCellIsACategoryOfTheContext) {
  const FeatureTransform transform = Fitted(Context(), Normalization::kZScore);
  const auto note_on = [&](std::vector<std::string> categories, std::vector<int32_t> codes) {
    Table table;
    table.columns = {Numbers("age", std::vector<double>(codes.size(), 3)),
                     Categories("city", std::move(categories), std::move(codes))};
    std::vector<ColumnNote> notes;
    EXPECT_TRUE(transform.Apply(table, &notes).ok());
    return notes.empty() ? ColumnNote() : notes[0];
  };
  ColumnNote note = note_on({"rome", "oslo"}, {0, -1, 1, 1});
  EXPECT_EQ(note.unknown_categories, 3);
  EXPECT_THAT(note.known_categories, ElementsAre("Bern", "Oslo", "Rome"));
  EXPECT_EQ(note.known_category_count, 3);
  note = note_on({"rome", "Oslo"}, {0, -1, 1, 0});
  EXPECT_EQ(note.unknown_categories, 2);
  EXPECT_TRUE(note.known_categories.empty());
  EXPECT_TRUE(note_on({}, {-1, -1}).empty());
}

TEST(FeatureTransformTest, ApplyRefuses) {
  const FeatureTransform transform = Fitted(Context(), Normalization::kNone);
  Table table;
  table.columns = {Numbers("age", {1, -4e38}), Categories("city", {"Rome"}, {0, 0})};
  absl::Status status = transform.Apply(table).status();
  EXPECT_EQ(ErrorField(status), "rows.columns[\"age\"].numeric.values[1]");
  EXPECT_THAT(status.message(), HasSubstr("float32"));
  // What MatchQueryRows refuses for this context.
  table.columns = {Categories("city", {"Rome"}, {0, 1}), Numbers("age", {1, 2})};
  status = transform.Apply(table).status();
  EXPECT_EQ(ErrorField(status), "rows.columns[\"city\"].categorical.codes[1]");
  table.columns.pop_back();
  EXPECT_EQ(ErrorField(transform.Apply(table).status()), "rows.columns");
}

}  // namespace
}  // namespace chorale
