// The cases of tests/client/column_cases.json are one content in every form: as strings in JSON, in
// a file and as typed values.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/column_forms_fixture.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// A table of a column of tests/client/column_cases.json and a target.
v1::Table CaseTable(v1::Column column, size_t rows) {
  v1::Table table;
  column.set_name("value");
  *table.add_columns() = std::move(column);
  v1::Column* const target = table.add_columns();
  target->set_name("y");
  for (size_t i = 0; i < rows; ++i) {
    target->mutable_numeric()->add_values(static_cast<double>(i * i));
  }
  return table;
}

// The typed column that `expected` describes.
v1::Column TypedColumn(const Json& expected, const Json& cells) {
  v1::Column column;
  if (expected["kind"] == "numeric") {
    const std::string meaning = expected["meaning"];
    column.mutable_numeric()->set_meaning(meaning == "date" ? v1::NumericValues::MEANING_DATE
                                          : meaning == "boolean"
                                              ? v1::NumericValues::MEANING_BOOLEAN
                                              : v1::NumericValues::MEANING_UNSPECIFIED);
    for (const Json& value : expected["values"]) {
      column.mutable_numeric()->add_values(
          value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
    }
    return column;
  }
  const std::vector<std::string> categories = expected["categories"];
  column.mutable_categorical()->mutable_categories()->Add(categories.begin(), categories.end());
  for (const Json& cell : cells) {
    const auto found =
        cell.is_null() ? categories.end() : std::find(categories.begin(), categories.end(), cell);
    column.mutable_categorical()->add_codes(
        found == categories.end() ? -1 : static_cast<int32_t>(found - categories.begin()));
  }
  return column;
}

bool IsAboutText(v1::Warning::Reason reason) {
  return reason >= v1::Warning::REASON_READ_AS_DATES &&
         reason <= v1::Warning::REASON_LARGE_INTEGERS;
}

// The warnings of strings and of the file are the same.
TEST_F(ColumnFormsTest, CasesOfTextsAreOneContentInEveryForm) {
  v1::ContextSpec spec;
  spec.set_context_id("case");
  spec.set_target_column("y");
  spec.set_validate_only(true);
  const auto digest_of = [&](const v1::Column& column, size_t rows) {
    const auto reply = client_->Upload(spec, {CaseTable(column, rows)});
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value.context().digest();
  };
  std::ifstream cases(CHORALE_SOURCE_DIR "/tests/client/column_cases.json");
  for (const Json& expected : Json::parse(cases)) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    const Json& cells = expected["cells"];
    Json strings = Json::array();
    std::string csv = "value,y\n";
    for (size_t row = 0; row < cells.size(); ++row) {
      strings.push_back(cells[row].is_null() ? "" : cells[row]);
      absl::StrAppend(&csv, "\"", strings.back().get<std::string>(), "\",", row * row, "\n");
    }
    v1::Column column;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(
                    Json{{"strings", {{"values", strings}}}}.dump(), &column)
                    .ok());
    const auto reply = client_->Upload(spec, {CaseTable(column, cells.size())});
    ASSERT_TRUE(reply.ok()) << reply.status.error_message();
    EXPECT_EQ(reply.value.context().digest(),
              digest_of(TypedColumn(expected, cells), cells.size()));
    std::string reasons;
    for (const v1::Warning& warning : reply.value.warnings()) {
      const std::string& reason = v1::Warning::Reason_Name(warning.reason());
      if (IsAboutText(warning.reason())) absl::StrAppend(&reasons, reason);
    }
    EXPECT_EQ(reasons, expected["note"].is_null()
                           ? ""
                           : absl::StrCat("REASON_", expected["note"].get<std::string>()));

    const client::ProgramResult result =
        Chorale({"register", File("case.csv", csv), "--target=y", "--name=case", "--validate-only",
                 "--format=json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    Json as_file = expected;
    as_file.merge_patch(expected.value("csv", Json::object()));
    EXPECT_EQ(Json::parse(result.out)["digest"],
              digest_of(TypedColumn(as_file, cells), cells.size()));
    if (expected.contains("csv")) continue;
    for (const v1::Warning& warning : reply.value.warnings()) {
      EXPECT_THAT(result.err, HasSubstr(warning.message()));
    }
  }
}

TEST_F(ColumnFormsTest, EqualNumbersAreOneCategoryInEveryForm) {
  std::vector<std::string> digests;
  for (const char* three : {"3", "3.0"}) {
    v1::Column column;
    for (const char* text : {"3", three, "x"}) column.mutable_strings()->add_values(text);
    const auto reply = client_->Register("three", CaseTable(column, 3), "y");
    ASSERT_TRUE(reply.ok()) << reply.status.error_message();
    const client::ProgramResult result =
        Chorale({"register", File("three.csv", absl::StrCat("value,y\n3,0\n", three, ",1\nx,4\n")),
                 "--target=y", "--name=three", "--validate-only", "--format=json"});
    digests.push_back(reply.value.context().digest());
    EXPECT_EQ(Json::parse(result.out)["digest"], digests.back()) << result.err;
    EXPECT_THAT(
        result.err,
        AllOf(HasSubstr("1 of its 3 cells is not a number"),
              HasSubstr("use --missing=TEXT,... for missing cells, or --categorical=value")));
  }
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace
}  // namespace chorale::end_to_end
