#include "client/cpp/missing_marks.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "base/number_text.h"

namespace chorale::client {
namespace {

using Marks = absl::flat_hash_set<absl::string_view>;

// The marks of pandas.read_csv, its mark for times, a question mark, and the mark of databases.
const Marks& MarksOfCategories() {
  static const auto* const marks =
      new Marks({"#N/A",   "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan",
                 "1.#IND", "1.#QNAN",  "<NA>", "N/A",     "NA",       "NULL", "NaN",
                 "None",   "n/a",      "nan",  "null",    "NaT",      "\\N",  "?"});
  return *marks;
}

// In lower case.
const Marks& MarksOfNumbers() {
  static const auto* const marks =
      new Marks({"#n/a", "#n/a n/a", "#na",    "-1.#ind", "-1.#qnan", "-nan", "1.#ind", "1.#qnan",
                 "<na>", "n/a",      "na",     "null",    "nan",      "none", "nat",    "\\n",
                 "?",    "n.a.",     "<null>", "(null)",  "-",        "--",   "---",    ".",
                 "..",   "...",      "\u2013", "\u2014",  "\u2212"});
  return *marks;
}

}  // namespace

MissingMarks::MissingMarks(const std::vector<std::string>& marks) : has_own_(true) {
  for (const std::string& mark : marks) {
    if (mark.empty()) continue;
    own_.insert(mark);
    if (const std::optional<double> number = ParseNumber(mark)) own_numbers_.insert(*number);
  }
}

bool MissingMarks::Matches(absl::string_view cell, ColumnKind kind) const {
  if (cell.empty() || own_.contains(cell)) return true;
  if (kind == ColumnKind::kCategorical) return !has_own_ && MarksOfCategories().contains(cell);
  const std::optional<double> number = ParseNumber(cell);
  if (number.has_value()) return own_numbers_.contains(*number);
  constexpr size_t kLongestMark = 16;  // longer cells are not copied in lower case
  return cell.size() <= kLongestMark && MarksOfNumbers().contains(absl::AsciiStrToLower(cell));
}

}  // namespace chorale::client
