// The transform of a context to which rows were appended: it is fitted to the first rows.
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/data/append_rows.h"
#include "engine/data/dataset_codec.h"
#include "engine/data/feature_transform.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/data/make_column.h"
#include "tests/engine/data/random_dataset.h"

namespace chorale {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig Config() {
  ModelConfig config;
  config.normalize_x = Normalization::kZScore;
  config.normalize_y = Normalization::kZScore;
  config.season_column = SeasonColumn::kPhase;
  return config;
}

FeatureTransform Fitted(const Dataset& dataset) {
  absl::StatusOr<FeatureTransform> transform = FeatureTransform::Fit(*BaseRows(dataset), Config());
  EXPECT_TRUE(transform.ok()) << transform.status();
  return *std::move(transform);
}

FeatureMatrix Apply(const FeatureTransform& transform, const Table& table,
                    std::vector<ColumnNote>* notes = nullptr) {
  absl::StatusOr<FeatureMatrix> matrix = transform.Apply(table, notes);
  EXPECT_TRUE(matrix.ok()) << matrix.status();
  return *std::move(matrix);
}

// A context of `columns` whose target has the values of a sine.
Dataset ContextOf(std::vector<Column> columns) {
  Dataset dataset;
  dataset.features.columns = std::move(columns);
  dataset.target = "y";
  for (int64_t row = 0; row < dataset.features.rows(); ++row) {
    dataset.y.push_back(std::sin(static_cast<double>(row)));
  }
  return dataset;
}

std::vector<double> Sines(int64_t count) {
  std::vector<double> sines;
  for (int64_t i = 0; i < count; ++i) sines.push_back(std::sin(1.7 * static_cast<double>(i)));
  return sines;
}

AppendedRows Match(const Dataset& dataset, std::vector<Column> columns, std::vector<double> y) {
  Table rows;
  rows.columns = std::move(columns);
  rows.columns.push_back(Numbers(dataset.target, std::move(y)));
  absl::StatusOr<AppendedRows> matched =
      MatchAppendedRows(dataset, std::move(rows), MissingTargets::kReject, Limits());
  EXPECT_TRUE(matched.ok()) << matched.status();
  return *std::move(matched);
}

Dataset Append(const Dataset& dataset, const AppendedRows& rows) {
  absl::StatusOr<Dataset> appended = AppendRows(dataset, rows, Limits());
  EXPECT_TRUE(appended.ok()) << appended.status();
  return *std::move(appended);
}

// The cells of some rows of a matrix, with NaN for a cell that is missing.
std::vector<float> CellsOf(const FeatureMatrix& matrix, int64_t from, int64_t to) {
  std::vector<float> cells;
  for (int64_t i = from * matrix.features; i < to * matrix.features; ++i) {
    const bool missing = !matrix.missing.empty() && matrix.missing[i] != 0;
    cells.push_back(matrix.x[i]);
    cells.push_back(missing ? 1 : 0);
  }
  return cells;
}

// An append changes no bit of the model's input for the earlier rows, and the appended rows are
// transformed like query rows.
TEST(AppendedTransformTest, RandomTablesInParts) {
  std::mt19937_64 random(2);
  int appends = 0;
  for (int i = 0; i < 300; ++i) {
    Dataset all = RandomDataset(random);
    all.memory = {};
    const auto rows = static_cast<int64_t>(all.y.size());
    if (rows < 2) continue;
    for (Column& column : all.features.columns) {
      for (double& number : column.numbers) {
        if (number == -1e300) number = -1e3;  // what a float32 holds
      }
    }
    all.append_starts = {1 + static_cast<int64_t>(random() % (rows - 1))};
    const int64_t first = all.append_starts[0];
    const FeatureTransform transform = Fitted(all);
    const Dataset base = DecodeDataset(EncodeDataset(*BaseRows(all))).value();
    const FeatureTransform registered = FeatureTransform::Fit(base, Config()).value();
    const FeatureMatrix of_all = Apply(transform, all.features);
    const FeatureMatrix of_base = Apply(registered, base.features);
    ASSERT_EQ(of_all.features, of_base.features);
    EXPECT_EQ(CellsOf(of_all, 0, first), CellsOf(of_base, 0, first));
    EXPECT_EQ(of_all.categorical, of_base.categorical);
    Table appended = all.features;
    for (Column& column : appended.columns) {
      if (column.type == ColumnType::kNumeric) {
        column.numbers.erase(column.numbers.begin(), column.numbers.begin() + first);
      } else {
        column.codes.erase(column.codes.begin(), column.codes.begin() + first);
      }
    }
    const FeatureMatrix of_rows = Apply(registered, appended);
    EXPECT_EQ(CellsOf(of_all, first, rows), CellsOf(of_rows, 0, rows - first));
    for (int64_t row = 0; row < rows; ++row) {
      EXPECT_EQ(transform.ContextToModel(all.y[row]), registered.ContextToModel(all.y[row]));
    }
    ++appends;
  }
  EXPECT_GT(appends, 200);
}

TEST(AppendedTransformTest, ValuesBeyondTheBulkAreCompressed) {
  const Dataset base = ContextOf({Numbers("x", Sines(120))});
  const AppendedRows rows = Match(base, {Numbers("x", {0.5, 1e6})}, {0, 0});
  const FeatureTransform transform = Fitted(Append(base, rows));
  const std::vector<ColumnNote> notes = transform.CheckAppendedRows(rows).value();
  ASSERT_EQ(notes.size(), 1);
  EXPECT_EQ(notes[0].column, "x");
  EXPECT_EQ(notes[0].outside_bulk, 1);
  const FeatureMatrix matrix = Apply(transform, Append(base, rows).features);
  EXPECT_LT(matrix.x.back(), 100);
  EXPECT_GT(matrix.x.back(), 5);
  EXPECT_TRUE(transform.context_notes().empty()) << "the first rows have none";
}

TEST(AppendedTransformTest, NewCategoriesAreMissingUntilTheContextIsEncodedAnew) {
  const Dataset base = ContextOf({Categories("city", {"Bern", "Rome"}, {0, 1, 0})});
  const AppendedRows rows = Match(base, {Categories("city", {"Oslo", "Rome"}, {0, 1})}, {0, 0});
  const Dataset appended = Append(base, rows);
  const FeatureTransform transform = Fitted(appended);
  const std::vector<ColumnNote> notes = transform.CheckAppendedRows(rows).value();
  ASSERT_EQ(notes.size(), 1);
  EXPECT_EQ(notes[0].unknown_categories, 1);
  const FeatureMatrix matrix = Apply(transform, appended.features);
  EXPECT_THAT(matrix.missing, ElementsAre(0, 0, 0, 1, 0));
  EXPECT_EQ(matrix.x[4], matrix.x[1]);
  EXPECT_TRUE(Apply(Fitted(WithoutAppends(appended)), appended.features).missing.empty());
}

TEST(AppendedTransformTest, MissingCellsAreImputedByTheFirstRows) {
  const Dataset base = ContextOf({Numbers("x", {1, 2, 6})});
  const AppendedRows rows = Match(base, {Numbers("x", {NAN, 3})}, {0, 0});
  const Dataset appended = Append(base, rows);
  const FeatureTransform transform = Fitted(appended);
  EXPECT_TRUE(transform.CheckAppendedRows(rows)->empty());
  const FeatureMatrix matrix = Apply(transform, appended.features);
  EXPECT_THAT(matrix.missing, ElementsAre(0, 0, 0, 1, 0));
  EXPECT_EQ(matrix.x[3], 0) << "the mean of the first rows";
  EXPECT_EQ(matrix.x[4], 0);
}

TEST(AppendedTransformTest, ColumnsThatAreConstantInTheFirstRowsStayDropped) {
  Column flag = Numbers("flag", {0, 0, 0});
  flag.meaning = Meaning::kBoolean;
  const Dataset base =
      ContextOf({Numbers("x", {1, 2, 6}), flag, Numbers("empty", {NAN, NAN, NAN})});
  const AppendedRows rows = Match(
      base, {Numbers("x", {1, 2}), Numbers("flag", {1, 0}), Numbers("empty", {5, NAN})}, {0, 0});
  const Dataset appended = Append(base, rows);
  const FeatureTransform transform = Fitted(appended);
  const std::vector<ColumnNote> notes = transform.CheckAppendedRows(rows).value();
  ASSERT_EQ(notes.size(), 2);
  EXPECT_EQ(notes[0].column, "flag");
  EXPECT_TRUE(notes[0].left_out);
  EXPECT_EQ(notes[1].column, "empty");
  EXPECT_EQ(notes[1].ignored, 1);
  EXPECT_EQ(Apply(transform, appended.features).features, 1);
  EXPECT_EQ(Apply(Fitted(WithoutAppends(appended)), appended.features).features, 3);
}

TEST(AppendedTransformTest, LaterDatesContinueTheSeason) {
  std::vector<double> days;
  std::vector<double> sales;
  std::mt19937_64 random(3);
  for (int day = 0; day < 140; ++day) {
    days.push_back(20'000 + day);
    sales.push_back(10 * std::sin(2 * std::numbers::pi * day / 7) +
                    std::normal_distribution<double>(0, 1)(random));
  }
  Dataset base = ContextOf({Numbers("day", days)});
  base.features.columns[0].meaning = Meaning::kDate;
  base.y = sales;
  const AppendedRows rows =
      Match(base, {Numbers("day", {20'140, 20'141, 20'500.5, NAN})}, {1, 2, 3, 4});
  const Dataset appended = Append(base, rows);
  const FeatureTransform transform = Fitted(appended);
  ASSERT_FALSE(transform.context_notes().empty());
  const double period = transform.context_notes()[0].season_steps;
  EXPECT_NEAR(period, 7, 0.02);
  EXPECT_TRUE(transform.CheckAppendedRows(rows).ok());
  const FeatureMatrix matrix = Apply(transform, appended.features);
  const auto phase = [&](int64_t row) { return matrix.x[(row + 1) * matrix.features - 1]; };
  EXPECT_NEAR(phase(140), phase(133), 0.02);
  EXPECT_NEAR(phase(141), phase(134), 0.02);
  EXPECT_GT(std::abs(phase(141) - phase(140)), 0.4);
  EXPECT_EQ(matrix.missing[143 * matrix.features + matrix.features - 1], 1);
  // The season that a record states is the season of the first rows.
  const FeatureTransform restored =
      FeatureTransform::Fit(*BaseRows(appended), Config(), KnownSeason{0, period}).value();
  EXPECT_EQ(Apply(restored, appended.features).x, matrix.x);
}

TEST(AppendedTransformTest, TargetsAreClippedAsInTheFirstRows) {
  Dataset base = ContextOf({Numbers("x", Sines(120))});
  base.y[5] = 1e6;
  const AppendedRows rows = Match(base, {Numbers("x", {0, 0, 0})}, {-1e7, 0.5, 1e300});
  const FeatureTransform transform = Fitted(Append(base, rows));
  const std::vector<ColumnNote> notes = transform.CheckAppendedRows(rows).value();
  ASSERT_EQ(notes.size(), 1);
  EXPECT_EQ(notes[0].column, "y");
  EXPECT_EQ(notes[0].clipped_targets, 2);
  EXPECT_EQ(transform.target_note().clipped_targets, 1) << "of the first rows";
  EXPECT_LT(std::abs(transform.ContextToModel(1e300)), 100);
}

// The first rows have no error of which the limit could be derived.
TEST(AppendedTransformTest, ErrorsAmongTheTargetsAreClipped) {
  Dataset base = ContextOf({Numbers("x", Sines(120))});
  for (double& y : base.y) y = 50'000 + 10'000 * y;
  const AppendedRows rows =
      Match(base, {Numbers("x", {0, 0, 0, 0, 0})}, {5e6, 70'000, 1e9, 1e40, 200'000});
  const Dataset appended = Append(base, rows);
  const FeatureTransform transform = Fitted(appended);
  const std::vector<ColumnNote> notes = transform.CheckAppendedRows(rows).value();
  ASSERT_EQ(notes.size(), 1);
  EXPECT_EQ(notes[0].clipped_targets, 3);
  EXPECT_TRUE(transform.context_notes().empty()) << "the first rows have none";
  EXPECT_EQ(transform.ContextToModel(70'000), transform.ToModel(70'000));
  EXPECT_EQ(transform.ContextToModel(200'000), transform.ToModel(200'000)) << "no wide gap";
  for (const double wrong : {5e6, 1e9, 1e40}) EXPECT_LT(transform.ContextToModel(wrong), 5);
  const FeatureTransform of_base = Fitted(base);
  for (const double y : appended.y) {
    EXPECT_EQ(of_base.ContextToModel(y), transform.ContextToModel(y)) << "the same bits";
  }
}

TEST(AppendedTransformTest, ValuesThatTheTargetDoesNotTakeAreCounted) {
  Dataset counts = ContextOf({Numbers("x", Sines(120))});
  for (size_t row = 0; row < counts.y.size(); ++row) counts.y[row] = static_cast<double>(row % 7);
  const auto beyond = [](const Dataset& base, const std::vector<double>& y) {
    const AppendedRows rows = Match(base, {Numbers("x", std::vector<double>(y.size()))}, y);
    const std::vector<ColumnNote> notes = Fitted(base).CheckAppendedRows(rows).value();
    if (notes.empty()) return std::string("none");
    EXPECT_EQ(notes.size(), 1);
    EXPECT_EQ(notes[0].column, "y");
    EXPECT_EQ(notes[0].clipped_targets, 0);
    return absl::StrCat(notes[0].beyond_support, ": ", notes[0].snapped_to);
  };
  EXPECT_EQ(beyond(counts, {3, 0, 6}), "none");
  EXPECT_EQ(beyond(counts, {3, 2.5, 9, -1}), "3: integers, at least 0, at most 6");
  Dataset prices = counts;
  for (double& y : prices.y) y = y < 2 ? 9.99 : y < 4 ? 49.5 : 100.25;
  EXPECT_EQ(beyond(prices, {9.99, 49.5}), "none");
  EXPECT_EQ(beyond(prices, {9.99, 19.99}), "1: the 3 values that the context contains");
  Dataset plain = counts;
  for (size_t row = 0; row < plain.y.size(); ++row) plain.y[row] = std::sin(row);
  EXPECT_EQ(beyond(plain, {0.123, 2}), "none");
}

TEST(AppendedTransformTest, RowsThatCannotBeEncodedAreRejected) {
  Dataset base = ContextOf({Numbers("x", Sines(120)), Numbers("z", Sines(120))});
  base.y.assign(base.y.size(), 1);  // a constant has no bound
  const AppendedRows target = Match(base, {Numbers("x", {0, 0}), Numbers("z", {0, 0})}, {0, 1e300});
  const FeatureTransform transform = Fitted(base);
  absl::Status status = transform.CheckAppendedRows(target).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorField(status), "rows.columns[\"y\"].numeric.values[1]");
  EXPECT_THAT(status.message(), HasSubstr("float32"));

  ModelConfig plain = Config();
  plain.normalize_x = Normalization::kNone;
  const AppendedRows feature =
      Match(base, {Numbers("x", {0, 0}), Numbers("z", {1e300, 0})}, {0, 0});
  status = FeatureTransform::Fit(base, plain)->CheckAppendedRows(feature).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorField(status), "rows.columns[\"z\"].numeric.values[0]");
}

}  // namespace
}  // namespace chorale
