#include "server/codec/dataset_assembler.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/tables.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::RegisterContextRequest Spec(const std::string& id = "houses",
                                const std::string& target = "price", const std::string& model = "",
                                int64_t row_count = 0) {
  v1::RegisterContextRequest message;
  message.mutable_spec()->set_context_id(id);
  message.mutable_spec()->set_target_column(target);
  message.mutable_spec()->set_model(model);
  message.mutable_spec()->set_row_count(row_count);
  return message;
}

// One row for each price.
v1::RegisterContextRequest Rows(const std::vector<double>& prices,
                                const std::vector<std::string>& categories,
                                const std::vector<int32_t>& codes) {
  v1::RegisterContextRequest message;
  AddNumeric(message.mutable_rows(), "price", prices);
  AddCategorical(message.mutable_rows(), "color", categories, codes);
  return message;
}

void ExpectRefused(const absl::Status& status, const std::string& field, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorField(status), field);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

v1::RegisterContextRequest TextRows(const std::vector<std::string>& prices,
                                    const std::vector<std::string>& days) {
  v1::RegisterContextRequest message;
  AddStrings(message.mutable_rows(), "price", prices);
  AddStrings(message.mutable_rows(), "day", days);
  return message;
}

TEST(DatasetAssemblerTest, TypesOfStringsAreThoseOfAllMessages) {
  DatasetAssembler dates{Limits()};
  ASSERT_TRUE(dates.Add(Spec()).ok());
  ASSERT_TRUE(dates.Add(TextRows({"1.5", "2"}, {"2024-01-31", ""})).ok());
  ASSERT_TRUE(dates.Add(TextRows({"3"}, {"2024-02-01"})).ok());
  absl::StatusOr<Dataset> dataset = dates.Finish();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(dataset->y, ElementsAre(1.5, 2, 3));
  EXPECT_EQ(dataset->features.columns[0].meaning, Meaning::kDate);
  EXPECT_EQ(dataset->features.columns[0].numbers[2], 19754);
  ASSERT_EQ(dates.text_warnings().size(), 1);
  EXPECT_EQ(dates.text_warnings()[0].reason, TextReason::kReadAsDates);

  DatasetAssembler texts{Limits()};
  ASSERT_TRUE(texts.Add(Spec()).ok());
  ASSERT_TRUE(texts.Add(TextRows({"1.5", "2"}, {"2024-01-31", ""})).ok());
  ASSERT_TRUE(texts.Add(TextRows({"3"}, {"tomorrow"})).ok());
  dataset = texts.Finish();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->features.columns[0].type, ColumnType::kCategorical);
  EXPECT_THAT(dataset->features.columns[0].codes, ElementsAre(0, kMissingCode, 1));
}

TEST(DatasetAssemblerTest, StringsOfTheTargetAreNumbers) {
  DatasetAssembler assembler{Limits()};
  ASSERT_TRUE(assembler.Add(Spec()).ok());
  ASSERT_TRUE(assembler.Add(TextRows({"1.5", "x", "2"}, {"a", "b", "c"})).ok());
  ExpectRefused(assembler.Finish().status(), "rows.columns[0]",
                "because 1 of its 3 cells is not a number (first: \"x\" in row 1)");

  DatasetAssembler empty{Limits()};
  ASSERT_TRUE(empty.Add(Spec()).ok());
  ASSERT_TRUE(empty.Add(TextRows({"1.5", "", "2"}, {"a", "b", "c"})).ok());
  ExpectRefused(empty.Finish().status(), "rows.columns[0]", "the cell in row 1 is missing");
}

TEST(DatasetAssemblerTest, LimitsOfCategoriesApplyToInferredCategories) {
  Limits limits;
  limits.max_categories = 2;
  DatasetAssembler numbers(limits);
  ASSERT_TRUE(numbers.Add(Spec()).ok());
  ASSERT_TRUE(numbers.Add(TextRows({"1", "2", "3"}, {"4", "5", "6"})).ok());
  EXPECT_TRUE(numbers.Finish().ok());
  DatasetAssembler texts(limits);
  ASSERT_TRUE(texts.Add(Spec()).ok());
  ASSERT_TRUE(texts.Add(TextRows({"1", "2", "3"}, {"a", "b", "c"})).ok());
  ExpectRefused(texts.Finish().status(), "rows.columns[1]",
                "or more categories over all messages; the limit is 2");
}

TEST(DatasetAssemblerTest, RowsWithoutATargetAreDroppedOnRequest) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  v1::RegisterContextRequest spec = Spec("houses", "price", "", 5);
  spec.mutable_spec()->set_missing_targets(v1::ContextSpec::MISSING_TARGETS_DROP);
  DatasetAssembler assembler{Limits()};
  ASSERT_TRUE(assembler.Add(spec).ok());
  ASSERT_TRUE(assembler.Add(Rows({1, kNan}, {"red", "blue"}, {1, 0})).ok());
  ASSERT_TRUE(assembler.Add(Rows({3, 4, kNan}, {"green", "red"}, {0, -1, 1})).ok());
  const absl::StatusOr<Dataset> dataset = assembler.Finish();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(assembler.dropped_rows(), 2);
  EXPECT_THAT(dataset->y, ElementsAre(1, 3, 4));
  EXPECT_THAT(dataset->features.columns[0].codes, ElementsAre(1, 2, kMissingCode));

  DatasetAssembler nothing{Limits()};
  ASSERT_TRUE(nothing.Add(spec).ok());
  ASSERT_TRUE(nothing.Add(Rows({kNan, kNan, kNan, kNan, kNan}, {"red"}, {0, 0, 0, 0, 0})).ok());
  ExpectRefused(nothing.Finish().status(), "rows.columns[0]", "no values");
}

TEST(DatasetAssemblerTest, ChunksBecomeOneDataset) {
  DatasetAssembler assembler{Limits()};
  ASSERT_TRUE(assembler.Add(Spec("houses", "price", "models/base", 5)).ok());
  ASSERT_TRUE(assembler.Add(Rows({1, 2}, {"red", "blue"}, {1, 0})).ok());
  // Other categories, in another order: codes are those of the union.
  ASSERT_TRUE(assembler.Add(Rows({3, 4, 5}, {"green", "red", "blue"}, {0, -1, 2})).ok());
  EXPECT_EQ(assembler.request().context, "houses");
  EXPECT_EQ(assembler.request().model, "base");
  EXPECT_EQ(assembler.rows(), 5);
  const absl::StatusOr<Dataset> dataset = assembler.Finish();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->target, "price");
  EXPECT_THAT(dataset->y, ElementsAre(1, 2, 3, 4, 5));
  ASSERT_EQ(dataset->features.columns.size(), 1);
  const Column& color = dataset->features.columns[0];
  EXPECT_THAT(color.categories, ElementsAre("red", "blue", "green"));
  EXPECT_THAT(color.codes, ElementsAre(1, 0, 2, -1, 1));
}

TEST(DatasetAssemblerTest, ASingleMessageBecomesTheDatasetOfItsChunks) {
  v1::CreateContextRequest single;
  *single.mutable_spec() = Spec("houses", "price", "models/base", 2).spec();
  *single.mutable_rows() = Rows({1, 2}, {"red", "blue"}, {1, 0}).rows();
  DatasetAssembler assembler{Limits()};
  ASSERT_TRUE(assembler.Add(single).ok());
  EXPECT_EQ(assembler.request().context, "houses");
  EXPECT_EQ(assembler.request().model, "base");
  const absl::StatusOr<Dataset> dataset = assembler.Finish();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(dataset->y, ElementsAre(1, 2));
  EXPECT_THAT(dataset->features.columns[0].codes, ElementsAre(1, 0));

  single.mutable_spec()->set_row_count(3);
  DatasetAssembler too_few{Limits()};
  ASSERT_TRUE(too_few.Add(single).ok());
  ExpectRefused(too_few.Finish().status(), "spec.row_count", "is 3, but 2 rows");
  single.clear_rows();
  ExpectRefused(DatasetAssembler(Limits()).Add(single), "rows.columns", "");
  single.clear_spec();
  ExpectRefused(DatasetAssembler(Limits()).Add(single), "spec.context_id", "");
}

TEST(DatasetAssemblerTest, FeaturesKeepTheirOrderAroundTheTarget) {
  DatasetAssembler assembler{Limits()};
  ASSERT_TRUE(assembler.Add(Spec("a", "y")).ok());
  v1::RegisterContextRequest rows;
  AddNumeric(rows.mutable_rows(), "x1", {1, std::nan("")});
  AddNumeric(rows.mutable_rows(), "y", {3, 4});
  AddNumeric(rows.mutable_rows(), "x2", {5, 6});
  ASSERT_TRUE(assembler.Add(rows).ok());
  const absl::StatusOr<Dataset> dataset = assembler.Finish();
  ASSERT_TRUE(dataset.ok());
  ASSERT_EQ(dataset->features.columns.size(), 2);
  EXPECT_EQ(dataset->features.columns[0].name, "x1");
  EXPECT_TRUE(std::isnan(dataset->features.columns[0].numbers[1]));
  EXPECT_EQ(dataset->features.columns[1].name, "x2");
  EXPECT_THAT(dataset->y, ElementsAre(3, 4));
}

TEST(DatasetAssemblerTest, BytesGrowWithWhatIsHeld) {
  DatasetAssembler assembler{Limits()};
  ASSERT_TRUE(assembler.Add(Spec()).ok());
  ASSERT_TRUE(assembler.Add(Rows({1, 2}, {"red"}, {0, 0})).ok());
  const int64_t names = 10;  // price, color
  EXPECT_EQ(assembler.bytes(), names + 2 * 8 + 2 * 4 + 3);
  ASSERT_TRUE(assembler.Add(Rows({1}, {"red"}, {0})).ok());
  EXPECT_EQ(assembler.bytes(), names + 3 * 8 + 3 * 4 + 3);
}

TEST(DatasetAssemblerTest, MemoryCountsWhatACategoryReallyTakes) {
  DatasetAssembler assembler{Limits()};
  ASSERT_TRUE(assembler.Add(Spec()).ok());
  ASSERT_TRUE(assembler.Add(Rows({1}, {"red"}, {0})).ok());
  const int64_t bytes = assembler.bytes();
  const int64_t memory = assembler.memory_bytes();
  EXPECT_GT(memory, bytes);
  // A category that is there already costs no more than its row.
  ASSERT_TRUE(assembler.Add(Rows({1}, {"red"}, {0})).ok());
  EXPECT_EQ(assembler.memory_bytes(), memory + 8 + 4);
  // A new one is a string in the column and another in the index.
  ASSERT_TRUE(assembler.Add(Rows({1}, {"blue"}, {0})).ok());
  EXPECT_EQ(assembler.bytes(), bytes + 2 * (8 + 4) + 4);
  const auto category = static_cast<int64_t>(2 * 4 + 2 * sizeof(std::string) + 32);
  EXPECT_EQ(assembler.memory_bytes(), memory + 2 * (8 + 4) + category);
}

TEST(DatasetAssemblerTest, BadHeaders) {
  ExpectRefused(DatasetAssembler(Limits()).Add(Spec("")), "spec.context_id", "");
  ExpectRefused(DatasetAssembler(Limits()).Add(Spec("../x")), "spec.context_id", "");
  ExpectRefused(DatasetAssembler(Limits()).Add(Spec("a", "")), "spec.target_column", "empty");
  ExpectRefused(DatasetAssembler(Limits()).Add(Spec("a", std::string(257, 'x'))),
                "spec.target_column", "257 bytes; the limit is 256");
  ExpectRefused(DatasetAssembler(Limits()).Add(Spec("a", "y", "base")), "spec.model", "models/");
  ExpectRefused(DatasetAssembler(Limits()).Add(Spec("a", "y", "", -1)), "spec.row_count", "-1");
  ExpectRefused(DatasetAssembler(Limits()).Add(v1::RegisterContextRequest()), "payload", "");
  v1::RegisterContextRequest unknown = Spec();
  unknown.mutable_spec()->set_seasons(static_cast<v1::ContextSpec::Seasons>(9));
  ExpectRefused(DatasetAssembler(Limits()).Add(unknown), "spec.seasons", "is 9");
  unknown = Spec();
  unknown.mutable_spec()->set_memory_policy(v1::MEMORY_POLICY_HEAVY);
  ExpectRefused(DatasetAssembler(Limits()).Add(unknown), "spec.memory_policy", "requires");
}

TEST(DatasetAssemblerTest, SeasonsAndMemorySetsAreThoseOfTheHeader) {
  for (const auto asked : {v1::ContextSpec::SEASONS_UNSPECIFIED, v1::ContextSpec::SEASONS_ON,
                           v1::ContextSpec::SEASONS_OFF}) {
    v1::RegisterContextRequest spec = Spec();
    spec.mutable_spec()->set_seasons(asked);
    spec.mutable_spec()->set_memory_row_count(64 + asked);
    DatasetAssembler assembler{Limits()};
    ASSERT_TRUE(assembler.Add(spec).ok());
    ASSERT_TRUE(assembler.Add(Rows({1}, {"red"}, {0})).ok());
    const absl::StatusOr<Dataset> dataset = assembler.Finish();
    EXPECT_EQ(dataset->seasons,
              asked == v1::ContextSpec::SEASONS_OFF ? Seasons::kNotSought : Seasons::kSought);
    EXPECT_EQ(dataset->memory.rows, 64 + asked);
  }
}

TEST(DatasetAssemblerTest, MessagesOutOfOrder) {
  {
    DatasetAssembler assembler{Limits()};
    ExpectRefused(assembler.Add(Rows({1}, {"a"}, {0})), "spec", "first message");
  }
  {
    DatasetAssembler assembler{Limits()};
    ASSERT_TRUE(assembler.Add(Spec()).ok());
    ExpectRefused(assembler.Add(Spec()), "spec", "only in the first message");
  }
  {
    DatasetAssembler assembler{Limits()};
    ExpectRefused(assembler.Finish().status(), "spec", "first message");
    ASSERT_TRUE(assembler.Add(Spec()).ok());
    ExpectRefused(assembler.Finish().status(), "rows", "after the spec");
  }
}

TEST(DatasetAssemblerTest, ChunksMustHaveTheSameColumns) {
  const auto second = [](const v1::RegisterContextRequest& message) {
    DatasetAssembler assembler{Limits()};
    EXPECT_TRUE(assembler.Add(Spec()).ok());
    EXPECT_TRUE(assembler.Add(Rows({1}, {"a"}, {0})).ok());
    return assembler.Add(message);
  };
  v1::RegisterContextRequest more = Rows({1}, {"a"}, {0});
  AddNumeric(more.mutable_rows(), "x", {1});
  ExpectRefused(second(more), "rows.columns", "3 columns, but the first message has 2");

  v1::RegisterContextRequest fewer;
  AddNumeric(fewer.mutable_rows(), "price", {1});
  ExpectRefused(second(fewer), "rows.columns", "1 columns, but the first message has 2");

  v1::RegisterContextRequest renamed = Rows({1}, {"a"}, {0});
  renamed.mutable_rows()->mutable_columns(1)->set_name("colour");
  ExpectRefused(second(renamed), "rows.columns[1].name", "but the first message has \"color\"");

  v1::RegisterContextRequest swapped;
  AddCategorical(swapped.mutable_rows(), "color", {"a"}, {0});
  AddNumeric(swapped.mutable_rows(), "price", {1});
  ExpectRefused(second(swapped), "rows.columns[0].name", "\"price\"");

  v1::RegisterContextRequest retyped;
  AddNumeric(retyped.mutable_rows(), "price", {1});
  AddNumeric(retyped.mutable_rows(), "color", {1});
  ExpectRefused(second(retyped), "rows.columns[1]",
                "numeric, but the first message has categorical");
}

TEST(DatasetAssemblerTest, AllChunksAgreeOnWhatNumbersMean) {
  const auto chunk = [](v1::NumericValues::Meaning meaning) {
    v1::RegisterContextRequest message;
    AddNumeric(message.mutable_rows(), "price", {1, 2});
    AddNumeric(message.mutable_rows(), "day", {3, 4});
    for (v1::Column& column : *message.mutable_rows()->mutable_columns()) {
      column.mutable_numeric()->set_meaning(meaning);
    }
    return message;
  };
  DatasetAssembler assembler{Limits()};
  ASSERT_TRUE(assembler.Add(Spec()).ok());
  ASSERT_TRUE(assembler.Add(chunk(v1::NumericValues::MEANING_DATE)).ok());
  ASSERT_TRUE(assembler.Add(chunk(v1::NumericValues::MEANING_DATE)).ok());
  const absl::StatusOr<Dataset> dataset = assembler.Finish();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ(dataset->features.columns.size(), 1u);
  EXPECT_EQ(dataset->features.columns[0].meaning, Meaning::kDate);

  DatasetAssembler mixed{Limits()};
  ASSERT_TRUE(mixed.Add(Spec("houses", "other")).ok());
  v1::RegisterContextRequest first = chunk(v1::NumericValues::MEANING_DATE);
  v1::RegisterContextRequest second = chunk({});
  for (v1::RegisterContextRequest* message : {&first, &second}) {
    AddNumeric(message->mutable_rows(), "other", {1, 2});
  }
  ASSERT_TRUE(mixed.Add(first).ok());
  ExpectRefused(mixed.Add(second), "rows.columns[0].numeric.meaning",
                "is number, but the first message has date (column \"price\")");
}

TEST(DatasetAssemblerTest, TheTargetMustBeNumericAndComplete) {
  DatasetAssembler missing{Limits()};
  ASSERT_TRUE(missing.Add(Spec("a", "rent")).ok());
  ExpectRefused(missing.Add(Rows({1}, {"a"}, {0})), "spec.target_column", "no column \"rent\"");

  DatasetAssembler categorical{Limits()};
  ASSERT_TRUE(categorical.Add(Spec("a", "color")).ok());
  ExpectRefused(categorical.Add(Rows({1}, {"a"}, {0})), "rows.columns[1]", "numeric");

  DatasetAssembler hole{Limits()};
  ASSERT_TRUE(hole.Add(Spec()).ok());
  ExpectRefused(hole.Add(Rows({1, std::nan("")}, {"a"}, {0, 0})), "rows.columns[0]",
                "the cell in row 1 is missing");

  DatasetAssembler boolean{Limits()};
  ASSERT_TRUE(boolean.Add(Spec()).ok());
  v1::RegisterContextRequest sold = Rows({1, 0, 2}, {"a"}, {0, 0, 0});
  sold.mutable_rows()->mutable_columns(0)->mutable_numeric()->set_meaning(
      v1::NumericValues::MEANING_BOOLEAN);
  ExpectRefused(boolean.Add(sold), "rows.columns[0].numeric.values[2]",
                "is 2; a boolean must be 0 or 1");

  DatasetAssembler alone{Limits()};
  ASSERT_TRUE(alone.Add(Spec()).ok());
  v1::RegisterContextRequest rows;
  AddNumeric(rows.mutable_rows(), "price", {1});
  ASSERT_TRUE(alone.Add(rows).ok());
  ExpectRefused(alone.Finish().status(), "rows.columns", "in addition to the target");
}

TEST(DatasetAssemblerTest, LimitsHoldOverAllChunks) {
  Limits limits;
  limits.max_context_rows = 3;
  DatasetAssembler rows{limits};
  ASSERT_TRUE(rows.Add(Spec()).ok());
  ASSERT_TRUE(rows.Add(Rows({1, 2}, {"a"}, {0, 0})).ok());
  ExpectRefused(rows.Add(Rows({1, 2}, {"a"}, {0, 0})), "rows", "4 rows");

  limits = Limits();
  limits.max_categories = 3;
  DatasetAssembler categories{limits};
  ASSERT_TRUE(categories.Add(Spec()).ok());
  ASSERT_TRUE(categories.Add(Rows({1}, {"a", "b"}, {0})).ok());
  ASSERT_TRUE(categories.Add(Rows({1}, {"b", "c"}, {0})).ok());
  ExpectRefused(categories.Add(Rows({1}, {"d"}, {0})), "rows.columns[1]", "the limit is 3");

  limits = Limits();
  limits.max_dataset_bytes = 58;
  DatasetAssembler bytes{limits};
  ASSERT_TRUE(bytes.Add(Spec()).ok());
  ASSERT_TRUE(bytes.Add(Rows({1, 2}, {"a"}, {0, 0})).ok());
  ExpectRefused(bytes.Add(Rows({1, 2}, {"a"}, {0, 0})), "rows", "the limit is 58");
}

TEST(DatasetAssemblerTest, TheNumberOfChunksIsBounded) {
  Limits limits;
  limits.max_context_rows = 1 << 20;
  DatasetAssembler assembler{limits};
  ASSERT_TRUE(assembler.Add(Spec()).ok());
  const v1::RegisterContextRequest row = Rows({1}, {"a"}, {0});
  for (int64_t i = 0; i < DatasetAssembler::kMaxChunks; ++i) ASSERT_TRUE(assembler.Add(row).ok());
  ExpectRefused(assembler.Add(row), "rows", "65536 messages");
}

TEST(DatasetAssemblerTest, AnUploadThatWasCutOffIsNoDataset) {
  DatasetAssembler assembler{Limits()};
  ASSERT_TRUE(assembler.Add(Spec("a", "price", "", 3)).ok());
  ASSERT_TRUE(assembler.Add(Rows({1, 2}, {"a"}, {0, 0})).ok());
  ExpectRefused(assembler.Finish().status(), "spec.row_count", "is 3, but 2 rows were sent");
}

}  // namespace
}  // namespace chorale
