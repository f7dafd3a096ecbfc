// The texts that stand for a missing cell.
#ifndef CHORALE_CLIENT_CPP_MISSING_MARKS_H_
#define CHORALE_CLIENT_CPP_MISSING_MARKS_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "client/cpp/data_frame.h"

namespace chorale::client {

// The empty cell is always missing. In a column of categories so are the marks that pandas knows
// ("NA", "NULL", "<NA>", ...), "?" and "\N", as they are spelt here; a user's marks take their
// place, because "NA" or "None" may be a category. In a column of numbers, where other texts make
// no sense, they are missing in capitals or small letters, and so are lone dashes and dots; a
// user's marks are added, and one that is a number stands for all spellings of it.
//
// Immutable: safe to share between threads.
class MissingMarks {
 public:
  MissingMarks() = default;
  // The user's marks. Empty ones are ignored: {""} is a user who has none.
  explicit MissingMarks(const std::vector<std::string>& marks);
  MissingMarks(std::initializer_list<std::string> marks)
      : MissingMarks(std::vector<std::string>(marks)) {}

  // Whether `cell` is missing in a column of this kind.
  bool Matches(absl::string_view cell, ColumnKind kind) const;
  // Whether these are a user's marks.
  bool has_own() const { return has_own_; }

 private:
  bool has_own_ = false;
  absl::flat_hash_set<std::string> own_;
  absl::flat_hash_set<double> own_numbers_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_MISSING_MARKS_H_
