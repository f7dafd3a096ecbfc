// What becomes of a column of texts: the table of cases that all clients share.
//
// Each case of tests/client/column_cases.json has a name, cells (null: missing) and what becomes of
// them: kind, then meaning and values, or categories in the order of their first cells; and the
// reason of the note, if there is one. "python" has what differs where the same cells are texts of
// a data frame in Python: there, plain numbers as texts are categories, and "NA" is a text like
// others. "server" has what differs for strings in the API
// (tests/engine/data/text_columns_test.cc).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/column_types.h"

namespace chorale::client {
namespace {

using Json = nlohmann::json;

Json ReadCases() {
  std::ifstream file(CHORALE_SOURCE_DIR "/tests/client/column_cases.json");
  return Json::parse(file);
}

// The cells as the first column of a file; the second makes lines with an empty cell rows.
std::string AsCsv(const Json& cells) {
  std::string content = CsvLine({"value", "row"});
  for (size_t row = 0; row < cells.size(); ++row) {
    const std::string cell = cells[row].is_null() ? "" : cells[row].get<std::string>();
    content += CsvLine({cell, absl::StrCat(row)});
  }
  return content;
}

// The reason of the note that all clients give, or null.
Json NotedReason(const TypedTable& table) {
  const std::set<NoteReason> own = {NoteReason::kMissingMarks, NoteReason::kLeadingZeros,
                                    NoteReason::kLostDigits};
  Json reason;
  for (const ColumnNote& note : table.notes) {
    if (note.column != "value" || own.count(note.reason) > 0) continue;
    EXPECT_TRUE(reason.is_null()) << note.text;
    reason = NameOf(note.reason);
  }
  return reason;
}

void ExpectColumn(const DataColumn& column, const Json& expected) {
  if (expected["kind"] == "categorical") {
    ASSERT_EQ(column.kind, ColumnKind::kCategorical);
    EXPECT_EQ(Json(column.categories), expected["categories"]);
    return;
  }
  ASSERT_EQ(expected["kind"], "numeric");
  ASSERT_EQ(column.kind, ColumnKind::kNumeric);
  const std::string type = TypeName({column.kind, column.meaning});
  EXPECT_EQ(type == "numeric" ? "number" : type, expected["meaning"]);
  ASSERT_EQ(column.numbers.size(), expected["values"].size());
  for (size_t row = 0; row < column.numbers.size(); ++row) {
    const Json& value = expected["values"][row];
    if (value.is_null()) {
      EXPECT_TRUE(std::isnan(column.numbers[row])) << row;
    } else {
      EXPECT_EQ(column.numbers[row], value.get<double>()) << row;
    }
  }
}

TEST(ColumnCasesTest, AllCases) {
  const Json cases = ReadCases();
  EXPECT_GE(cases.size(), 40u);
  for (const Json& expected : cases) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    const absl::StatusOr<CsvTable> csv = ParseCsv(AsCsv(expected["cells"]));
    ASSERT_TRUE(csv.ok()) << csv.status();
    const absl::StatusOr<TypedTable> table = InferTypes(*csv, {});
    ASSERT_TRUE(table.ok()) << table.status();
    ExpectColumn(*table->frame.Find("value"), expected);
    EXPECT_EQ(NotedReason(*table), expected["note"]);
  }
}

}  // namespace
}  // namespace chorale::client
