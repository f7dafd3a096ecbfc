// Tests ValidateDataset of engine/data/dataset_codec.h.
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/error_details.h"
#include "engine/data/dataset_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Dataset ValidDataset() {
  Dataset dataset;
  Column age;
  age.name = "age";
  age.numbers = {30, NAN, 50};
  Column city;
  city.name = "city";
  city.type = ColumnType::kCategorical;
  city.categories = {"Rome", "Bern"};
  city.codes = {0, 1, kMissingCode};
  dataset.features.columns = {age, city};
  dataset.target = "y";
  dataset.y = {1, 2, 3};
  return dataset;
}

struct InvalidCase {
  const char* name;
  std::function<void(Dataset&, Limits&)> spoil;
  std::string field;
  std::string message;
};

class InvalidDatasetTest : public testing::TestWithParam<InvalidCase> {};

TEST_P(InvalidDatasetTest, NamesFieldAndLimit) {
  Dataset dataset = ValidDataset();
  Limits limits;
  ASSERT_TRUE(ValidateDataset(dataset, limits).ok());
  GetParam().spoil(dataset, limits);
  const absl::Status status = ValidateDataset(dataset, limits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorField(status), GetParam().field);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().message));
}

Column& Age(Dataset& dataset) { return dataset.features.columns[0]; }
Column& City(Dataset& dataset) { return dataset.features.columns[1]; }

INSTANTIATE_TEST_SUITE_P(
    All, InvalidDatasetTest,
    testing::Values(
        InvalidCase{"NoColumns", [](Dataset& d, Limits&) { d.features.columns.clear(); },
                    "rows.columns", "at least one feature column"},
        InvalidCase{"NoRows",
                    [](Dataset& d, Limits&) {
                      Age(d).numbers.clear();
                      City(d).codes.clear();
                      d.y.clear();
                    },
                    "rows", "at least one row"},
        InvalidCase{"TooManyRows", [](Dataset&, Limits& l) { l.max_context_rows = 2; }, "rows",
                    "has 3 rows; the limit is 2"},
        InvalidCase{"TooManyColumns", [](Dataset&, Limits& l) { l.max_features = 1; },
                    "rows.columns", "has 2 feature columns; the limit is 1"},
        InvalidCase{"TooManyBytes", [](Dataset&, Limits& l) { l.max_dataset_bytes = 50; }, "rows",
                    "the limit is 50"},
        InvalidCase{"ShortColumn", [](Dataset& d, Limits&) { Age(d).numbers.pop_back(); },
                    "rows.columns[\"age\"].numeric.values", "has 2 cells, but the table has 3"},
        InvalidCase{"ShortCodes", [](Dataset& d, Limits&) { City(d).codes.pop_back(); },
                    "rows.columns[\"city\"].categorical.codes", "has 2 cells"},
        InvalidCase{"Infinite", [](Dataset& d, Limits&) { Age(d).numbers[2] = -kInfinity; },
                    "rows.columns[\"age\"].numeric.values[2]", "infinite"},
        InvalidCase{"NoBoolean",
                    [](Dataset& d, Limits&) {
                      Age(d).meaning = Meaning::kBoolean;
                      Age(d).numbers = {1, NAN, 0.5};
                    },
                    "rows.columns[\"age\"].numeric.values[2]", "is 0.5; a boolean must be 0 or 1"},
        InvalidCase{"MeaningOfCategories",
                    [](Dataset& d, Limits&) { City(d).meaning = Meaning::kDate; },
                    "rows.columns[\"city\"]", "is categorical"},
        InvalidCase{"BothKinds",
                    [](Dataset& d, Limits&) {
                      Age(d).codes = {0, 0, 0};
                    },
                    "rows.columns[\"age\"]", "is numeric but also has categories"},
        InvalidCase{"BothKinds2",
                    [](Dataset& d, Limits&) {
                      City(d).numbers = {0, 0, 0};
                    },
                    "rows.columns[\"city\"]", "is categorical but also has numbers"},
        InvalidCase{"CodeTooLarge", [](Dataset& d, Limits&) { City(d).codes[1] = 2; },
                    "rows.columns[\"city\"].categorical.codes[1]", "is 2"},
        InvalidCase{"CodeTooSmall", [](Dataset& d, Limits&) { City(d).codes[1] = -2; },
                    "rows.columns[\"city\"].categorical.codes[1]", "is -2"},
        InvalidCase{"EmptyCategory", [](Dataset& d, Limits&) { City(d).categories[0] = ""; },
                    "rows.columns[\"city\"].categorical.categories[0]", "empty"},
        InvalidCase{"TwiceACategory", [](Dataset& d, Limits&) { City(d).categories[1] = "Rome"; },
                    "rows.columns[\"city\"].categorical.categories[1]", "repeats"},
        InvalidCase{"LongCategory",
                    [](Dataset& d, Limits&) { City(d).categories[1] = std::string(257, 'x'); },
                    "rows.columns[\"city\"].categorical.categories[1]", "257 bytes; the limit is"},
        InvalidCase{"BadCategory", [](Dataset& d, Limits&) { City(d).categories[1] = "\xff"; },
                    "rows.columns[\"city\"].categorical.categories[1]", "UTF-8"},
        InvalidCase{"ManyCategories", [](Dataset&, Limits& l) { l.max_categories = 1; },
                    "rows.columns[\"city\"].categorical.categories",
                    "has 2 categories; the limit is 1"},
        InvalidCase{"EmptyName", [](Dataset& d, Limits&) { Age(d).name = ""; }, "rows.columns",
                    "empty"},
        InvalidCase{"LongName", [](Dataset& d, Limits&) { Age(d).name = std::string(257, 'n'); },
                    "rows.columns", "257 bytes; the limit is 256"},
        InvalidCase{"TwiceAName", [](Dataset& d, Limits&) { Age(d).name = "city"; }, "rows.columns",
                    "two columns have the name \"city\""},
        InvalidCase{"ControlCharacter", [](Dataset& d, Limits&) { Age(d).name = "a\nb"; },
                    "rows.columns", "control character"},
        InvalidCase{"ZeroByte", [](Dataset& d, Limits&) { Age(d).name = std::string(1, '\0'); },
                    "rows.columns", "control character"},
        InvalidCase{"BadName", [](Dataset& d, Limits&) { Age(d).name = "\xc0\xaf"; },
                    "rows.columns", "UTF-8"},
        InvalidCase{"SmallMemorySet", [](Dataset& d, Limits&) { d.memory.rows = 63; },
                    "memory_row_count", "is 63; must be 0, or at least 64"},
        InvalidCase{"NegativeMemorySet", [](Dataset& d, Limits&) { d.memory.rows = -64; },
                    "memory_row_count", "is -64; must be 0, or at least 64"},
        InvalidCase{"PolicyOfNoMemorySet",
                    [](Dataset& d, Limits&) { d.memory.policy = MemoryPolicy::kHeavy; },
                    "memory_policy", "requires memory_row_count"},
        InvalidCase{"UnknownPolicy",
                    [](Dataset& d, Limits&) {
                      d.memory = {.rows = 64, .policy = static_cast<MemoryPolicy>(4)};
                    },
                    "memory_policy", "is 4, which is not a known value"},
        InvalidCase{"AppendAtTheFirstRow",
                    [](Dataset& d, Limits&) {
                      d.append_starts = {0, 1};
                    },
                    "append_starts",
                    "contains 0 after 0; must be ascending, from 1 to 2, as there are 3 rows"},
        InvalidCase{"AppendOfNoRows",
                    [](Dataset& d, Limits&) {
                      d.append_starts = {1, 3};
                    },
                    "append_starts", "contains 3 after 1; must be ascending, from 1 to 2"},
        InvalidCase{"EqualAppends",
                    [](Dataset& d, Limits&) {
                      d.append_starts = {1, 1};
                    },
                    "append_starts", "contains 1 after 1"},
        InvalidCase{"NegativeAppend", [](Dataset& d, Limits&) { d.append_starts = {-1}; },
                    "append_starts", "contains -1 after 0"},
        InvalidCase{"NoTarget", [](Dataset& d, Limits&) { d.target = ""; }, "target_column",
                    "empty"},
        InvalidCase{"TargetIsFeature", [](Dataset& d, Limits&) { d.target = "age"; },
                    "target_column", "also the name of a feature"},
        InvalidCase{"TargetMissing", [](Dataset& d, Limits&) { d.y[1] = NAN; },
                    "rows.columns[\"y\"].numeric.values[1]", "finite number in each row"},
        InvalidCase{"TargetInfinite", [](Dataset& d, Limits&) { d.y[0] = kInfinity; },
                    "rows.columns[\"y\"].numeric.values[0]", "finite number in each row"}),
    [](const auto& info) { return info.param.name; });

TEST(ValidateDatasetTest, AppendsOfContextsWithMemorySets) {
  Dataset dataset = ValidDataset();
  dataset.append_starts = {1, 2};
  dataset.memory.rows = 64;
  EXPECT_TRUE(ValidateDataset(dataset, Limits()).ok());
  Age(dataset).numbers.resize(65);
  City(dataset).codes.resize(65);
  dataset.y.resize(65);
  EXPECT_TRUE(ValidateDataset(dataset, Limits()).ok());
  dataset.memory.policy = MemoryPolicy::kHeavy;
  const absl::Status status = ValidateDataset(dataset, Limits());
  EXPECT_EQ(ErrorField(status), "rows");
  EXPECT_THAT(status.message(), HasSubstr("cannot be appended"));
  EXPECT_THAT(status.message(), HasSubstr("heavy"));
  dataset.append_starts.clear();
  EXPECT_TRUE(ValidateDataset(dataset, Limits()).ok());
}

TEST(ValidateDatasetTest, LimitsAreInclusive) {
  Limits limits;
  limits.max_context_rows = 3;
  limits.max_features = 2;
  limits.max_categories = 2;
  limits.max_name_bytes = 4;
  EXPECT_TRUE(ValidateDataset(ValidDataset(), limits).ok());
}

TEST(ValidateDatasetTest, BooleansAreZeroOneOrMissing) {
  Dataset dataset = ValidDataset();
  Age(dataset).meaning = Meaning::kBoolean;
  Age(dataset).numbers = {1, NAN, -0.0};
  EXPECT_TRUE(ValidateDataset(dataset, Limits()).ok());
}

TEST(ValidateDatasetTest, AllMissingColumnsAreFine) {
  Dataset dataset = ValidDataset();
  Age(dataset).numbers = {NAN, NAN, NAN};
  City(dataset).categories.clear();
  City(dataset).codes = {-1, -1, -1};
  EXPECT_TRUE(ValidateDataset(dataset, Limits()).ok());
}

TEST(ValidateDatasetTest, MessagesStayShortAndValidForHostileNames) {
  Dataset dataset = ValidDataset();
  Age(dataset).name = std::string(1 << 20, '\xff');
  const absl::Status status = ValidateDataset(dataset, Limits());
  EXPECT_FALSE(status.ok());
  EXPECT_LT(status.message().size(), 500u);
}

}  // namespace
}  // namespace chorale
