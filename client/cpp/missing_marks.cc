#include "client/cpp/missing_marks.h"

#include "base/number_text.h"

namespace chorale::client {
namespace {

// The marks of pandas.read_csv, its mark for times, a question mark, and the mark of databases.
bool IsDefault(absl::string_view cell) {
  static const auto* const marks = new absl::flat_hash_set<absl::string_view>(
      {"#N/A",   "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan",
       "1.#IND", "1.#QNAN",  "<NA>", "N/A",     "NA",       "NULL", "NaN",
       "None",   "n/a",      "nan",  "null",    "NaT",      "\\N",  "?"});
  return marks->contains(cell);
}

}  // namespace

MissingMarks::MissingMarks(const std::vector<std::string>& marks) {
  for (const std::string& mark : marks) {
    if (mark.empty()) has_defaults_ = false;
    own_.insert(mark);
    if (IsPlainNumber(mark)) own_numbers_.insert(*ParseNumber(mark));
  }
}

bool MissingMarks::MatchesOwn(absl::string_view cell) const {
  if (cell.empty() || own_.contains(cell)) return true;
  return !own_numbers_.empty() && IsPlainNumber(cell) && own_numbers_.contains(*ParseNumber(cell));
}

bool MissingMarks::Matches(absl::string_view cell) const {
  return MatchesOwn(cell) || MatchesDefault(cell);
}

bool MissingMarks::MatchesDefault(absl::string_view cell) const {
  return has_defaults_ && IsDefault(cell) && !MatchesOwn(cell);
}

}  // namespace chorale::client
