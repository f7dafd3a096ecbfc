// The texts that denote a missing cell.
#ifndef CHORALE_CLIENT_CPP_MISSING_MARKS_H_
#define CHORALE_CLIENT_CPP_MISSING_MARKS_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "client/cpp/data_frame.h"

namespace chorale::client {

// An empty cell is always missing. The other rules depend on the type of the column:
//   - In a categorical column, the marks of pandas ("NA", "NULL", "<NA>", ...), "?" and "\N" are
//     missing, in this spelling. A user's marks replace them, because "NA" or "None" may be a
//     category.
//   - In a numeric column, these marks are missing regardless of case, and so are single dashes and
//     dots. A user's marks are added; a mark that is a number matches all notations of the number.
//
// Immutable: safe to share between threads.
class MissingMarks {
 public:
  MissingMarks() = default;
  // The user's marks. Empty marks are ignored: {""} means that the user has no marks.
  explicit MissingMarks(const std::vector<std::string>& marks);
  MissingMarks(std::initializer_list<std::string> marks)
      : MissingMarks(std::vector<std::string>(marks)) {}

  // Whether `cell` is missing in a column of this kind.
  bool Matches(absl::string_view cell, ColumnKind kind) const;
  // Whether these marks were set by the user.
  bool has_own() const { return has_own_; }

 private:
  bool has_own_ = false;
  absl::flat_hash_set<std::string> own_;
  absl::flat_hash_set<double> own_numbers_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_MISSING_MARKS_H_
