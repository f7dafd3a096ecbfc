// What a column was: tables whose rows come from another tool than the table itself, and tables
// that the real server refuses. The chorale program and a client of the plain API talk to one
// server.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli/program.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/column_forms_fixture.h"
#include "tests/end_to_end/server_process.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Meaning = v1::NumericValues::Meaning;

void AddNumbers(v1::Table* table, const std::string& name, const std::vector<double>& values,
                Meaning meaning = {}) {
  v1::Column* column = table->add_columns();
  column->set_name(name);
  column->mutable_numeric()->mutable_values()->Add(values.begin(), values.end());
  column->mutable_numeric()->set_meaning(meaning);
}

void AddCategories(v1::Table* table, const std::string& name,
                   const std::vector<std::string>& categories, const std::vector<int32_t>& codes) {
  v1::Column* column = table->add_columns();
  column->set_name(name);
  for (const std::string& category : categories) {
    column->mutable_categorical()->add_categories(category);
  }
  column->mutable_categorical()->mutable_codes()->Add(codes.begin(), codes.end());
}

constexpr double kNewYear2012 = 15340;

class ColumnMeaningTest : public ColumnFormsTest {
 protected:
  // The means of the chorale program for the rows of a file.
  std::vector<double> MeansOfFile(const std::string& id, const std::string& content) const {
    const client::ProgramResult result = Chorale({"predict", id, File("rows.csv", content)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    std::vector<double> means;
    for (const absl::string_view line : absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
      const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
      double mean = 0;
      if (absl::SimpleAtod(cells.at(1), &mean)) means.push_back(mean);
    }
    return means;
  }
  v1::PredictResponse Predict(const std::string& id, const v1::Table& rows) const {
    v1::PredictRequest request;
    request.set_context(absl::StrCat("contexts/", id));
    *request.mutable_rows() = rows;
    const auto reply = client_->Predict(request);
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value;
  }
  std::vector<double> Means(const std::string& id, const v1::Table& rows) const {
    const v1::PredictResponse response = Predict(id, rows);
    return {response.means().begin(), response.means().end()};
  }

  // 24 days in 2012, of which every third is a holiday, as a data frame's client sends them.
  static v1::Table Days(bool with_meaning) {
    std::vector<double> days;
    std::vector<double> holidays;
    std::vector<double> y;
    for (int i = 0; i < 24; ++i) {
      days.push_back(kNewYear2012 + i);
      holidays.push_back(i % 3 == 0 ? 1 : 0);
      y.push_back(10 + 0.5 * i + 3 * holidays.back() + 0.01 * (i * i % 7));
    }
    v1::Table table;
    AddNumbers(&table, "day", days, with_meaning ? v1::NumericValues::MEANING_DATE : Meaning());
    AddNumbers(&table, "holiday", holidays,
               with_meaning ? v1::NumericValues::MEANING_BOOLEAN : Meaning());
    AddNumbers(&table, "y", y);
    return table;
  }
  // The same as a file, with booleans in this spelling.
  static std::string DaysAsFile(const std::string& yes, const std::string& no) {
    const v1::Table days = Days(true);
    std::string content = "day,holiday,y\n";
    for (int i = 0; i < 24; ++i) {
      absl::StrAppend(&content, "2012-01-", i < 9 ? "0" : "", i + 1, ",", i % 3 == 0 ? yes : no,
                      ",", absl::SixDigits(days.columns(2).numeric().values(i)), "\n");
    }
    return content;
  }
  static v1::Table TwoDays() {
    v1::Table rows;
    AddNumbers(&rows, "day", {kNewYear2012 + 24, kNewYear2012 + 25.5});
    AddNumbers(&rows, "holiday", {1, 0});
    return rows;
  }
};

TEST_F(ColumnMeaningTest, RowsOfAFileForATableOfADataFrame) {
  const auto reply = client_->Register("frame", Days(true), "y");
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  const v1::Context& context = reply.value.context();
  EXPECT_EQ(context.features(0).meaning(), v1::NumericValues::MEANING_DATE);
  EXPECT_EQ(context.features(1).meaning(), v1::NumericValues::MEANING_BOOLEAN);
  EXPECT_EQ(context.features(0).type(), v1::ColumnSummary::TYPE_NUMERIC);
  const std::vector<double> expected = Means("frame", TwoDays());
  ASSERT_EQ(expected.size(), 2u);
  for (const char* content : {"day,holiday\n2012-01-25,True\n2012-01-26T12:00:00Z,False\n",
                              "day,holiday\n2012-01-25 00:00:00,TRUE\n2012-01-26T14:00+02:00,no\n",
                              "day,holiday\n15364,1\n15365.5,0\n"}) {
    EXPECT_EQ(MeansOfFile("frame", content), expected) << content;
  }
  const client::ProgramResult shown = Chorale({"show", "frame", "--format=table"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("day      date"), HasSubstr("holiday  boolean")));
}

TEST_F(ColumnMeaningTest, RowsOfADataFrameForATableOfAFile) {
  const client::ProgramResult registered = Chorale(
      {"register", File("days.csv", DaysAsFile("TRUE", "FALSE")), "--target=y", "--name=file"});
  ASSERT_EQ(registered.exit_code, 0) << registered.err;
  const auto frame = client_->Register("same", Days(true), "y");
  ASSERT_TRUE(frame.ok()) << frame.status.error_message();
  EXPECT_EQ(client_->Get("file").value.digest(), frame.value.context().digest());
  const std::vector<double> expected = Means("same", TwoDays());
  EXPECT_EQ(Means("file", TwoDays()), expected);
  v1::Table with_meaning = TwoDays();
  with_meaning.mutable_columns(0)->mutable_numeric()->set_meaning(v1::NumericValues::MEANING_DATE);
  with_meaning.mutable_columns(1)->mutable_numeric()->set_meaning(
      v1::NumericValues::MEANING_BOOLEAN);
  EXPECT_EQ(Means("file", with_meaning), expected);
}

TEST_F(ColumnMeaningTest, SurvivesARestart) {
  ASSERT_TRUE(client_->Register("kept", Days(true), "y").ok());
  client_.reset();
  server_->Terminate();
  delete server_;
  Start();
  ASSERT_NE(server_, nullptr);
  client_ = std::make_unique<ApiClient>(server_->address());
  const auto context = client_->Get("kept");
  ASSERT_TRUE(context.ok()) << context.status.error_message();
  EXPECT_EQ(context.value.features(0).meaning(), v1::NumericValues::MEANING_DATE);
  EXPECT_EQ(context.value.features(1).meaning(), v1::NumericValues::MEANING_BOOLEAN);
  EXPECT_EQ(MeansOfFile("kept", "day,holiday\n2012-01-25,True\n2012-01-26 12:00,no\n"),
            Means("kept", TwoDays()));
}

TEST_F(ColumnMeaningTest, ChangesNoBitOfPredictionsAndDensities) {
  const auto plain = client_->Register("plain", Days(false), "y");
  const auto with_meaning = client_->Register("meant", Days(true), "y");
  ASSERT_TRUE(plain.ok() && with_meaning.ok());
  EXPECT_NE(plain.value.context().digest(), with_meaning.value.context().digest());
  EXPECT_EQ(plain.value.context().features(0).season_steps(),
            with_meaning.value.context().features(0).season_steps());
  EXPECT_EQ(Means("plain", TwoDays()), Means("meant", TwoDays()));
  v1::LogDensityRequest request;
  *request.mutable_rows() = TwoDays();
  for (const double value : {20.0, 21.0}) request.add_values(value);
  request.set_context("contexts/plain");
  const auto a = client_->LogDensity(request);
  request.set_context("contexts/meant");
  const auto b = client_->LogDensity(request);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a.value.log_densities(0), b.value.log_densities(0));
}

TEST_F(ColumnMeaningTest, WhatIsNoBooleanIsRefusedByItsField) {
  v1::Table table = Days(true);
  table.mutable_columns(1)->mutable_numeric()->set_values(7, 2);
  const auto reply = client_->Register("bad", table, "y");
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(DetailsOf(reply.status).fields,
              ::testing::ElementsAre("rows.columns[\"holiday\"].numeric.values[7]"));
  v1::Table rows = TwoDays();
  rows.mutable_columns(1)->mutable_numeric()->set_meaning(v1::NumericValues::MEANING_BOOLEAN);
  rows.mutable_columns(1)->mutable_numeric()->set_values(1, 0.5);
  ASSERT_TRUE(client_->Register("good", Days(true), "y").ok());
  v1::PredictRequest request;
  request.set_context("contexts/good");
  *request.mutable_rows() = rows;
  EXPECT_THAT(DetailsOf(client_->Predict(request).status).fields,
              ::testing::ElementsAre("rows.columns[\"holiday\"].numeric.values[1]"));
}

// Categories that are booleans: Excel writes TRUE, pandas True, databases 1.
TEST_F(ColumnMeaningTest, CategoriesForTrueAndFalseMeet) {
  v1::Table table;
  std::vector<int32_t> codes;
  std::vector<double> y;
  for (int i = 0; i < 24; ++i) {
    codes.push_back(i * i % 3 == 0 ? 1 : 0);
    y.push_back(10 + 8 * codes.back() + 0.1 * (i % 5));
  }
  AddCategories(&table, "flag", {"FALSE", "TRUE"}, codes);
  AddNumbers(&table, "y", y);
  ASSERT_TRUE(client_->Register("excel", table, "y").ok());
  v1::Table same;
  AddCategories(&same, "flag", {"TRUE", "FALSE"}, {0, 1});
  const std::vector<double> expected = Means("excel", same);
  EXPECT_GT(expected[0] - expected[1], 4);
  for (const auto& [yes, no] : {std::pair{"True", "False"},
                                {"true", "false"},
                                {"1", "0"},
                                {"yes", "no"},
                                {"T", "F"},
                                {"1.0", "0.0"}}) {
    v1::Table rows;
    AddCategories(&rows, "flag", {yes, no}, {0, 1});
    const v1::PredictResponse response = Predict("excel", rows);
    EXPECT_EQ(response.warnings_size(), 0) << yes;
    EXPECT_EQ(std::vector<double>(response.means().begin(), response.means().end()), expected);
    EXPECT_EQ(MeansOfFile("excel", absl::StrCat("flag\n", yes, "\n", no, "\n")), expected);
  }
  v1::Table unknown;
  AddCategories(&unknown, "flag", {"on", "off"}, {0, 1, 1});
  const v1::PredictResponse response = Predict("excel", unknown);
  ASSERT_EQ(response.warnings_size(), 1);
  EXPECT_EQ(response.warnings(0).message(),
            "column \"flag\": none of its 3 cells contains a category of the context, so all are "
            "treated as missing; the context has \"FALSE\", \"TRUE\"");
}

TEST_F(ColumnMeaningTest, AnIdWithTooManyCategoriesIsRefusedWithTheWayOut) {
  std::string content = "x,id,y\n";
  for (int i = 0; i < 5000; ++i)
    absl::StrAppend(&content, i % 17, ",id-", i * 7, ",", i % 23, "\n");
  const client::ProgramResult refused =
      Chorale({"register", File("ids.csv", content), "--target=y", "--name=ids"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("4096"),
                                 HasSubstr("if the column is an ID, drop it with --drop=id\n")));
}

TEST_F(ColumnMeaningTest, TooManyColumnsAreRefusedWithTheWayOut) {
  const auto file_of = [this](int features, int constants) {
    std::string content = "y";
    for (int i = 0; i < features; ++i) absl::StrAppend(&content, ",x", i);
    for (int i = 0; i < constants; ++i) absl::StrAppend(&content, ",c", i);
    for (int row = 0; row < 6; ++row) {
      absl::StrAppend(&content, "\n", row);
      for (int i = 0; i < features; ++i) absl::StrAppend(&content, ",", (row + i) % 7);
      for (int i = 0; i < constants; ++i) absl::StrAppend(&content, ",", i);
    }
    return File("wide.csv", content + "\n");
  };
  const client::ProgramResult refused =
      Chorale({"register", file_of(150, 0), "--target=y", "--name=wide"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("has 150 feature columns; the model takes 100"),
                                 HasSubstr("drop columns with --drop=COLUMN,...")));
  const client::ProgramResult fits =
      Chorale({"register", file_of(90, 20), "--target=y", "--name=wide"});
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_THAT(fits.err, Not(HasSubstr("the model takes")));
  EXPECT_EQ(Chorale({"predict", "wide", file_of(90, 20)}).exit_code, 0);
}

}  // namespace
}  // namespace chorale::end_to_end
