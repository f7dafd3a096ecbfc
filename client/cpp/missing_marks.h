// The texts that denote a missing cell.
#ifndef CHORALE_CLIENT_CPP_MISSING_MARKS_H_
#define CHORALE_CLIENT_CPP_MISSING_MARKS_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace chorale::client {

// An empty cell is missing, and so are the default marks in this spelling: those of pandas ("NA",
// "NULL", "<NA>", ...), "?" and "\N". A user's marks are added to them. A mark that is a number
// matches all notations of the number, except codes with a leading zero. An empty text among the
// user's marks removes the default marks, because "NA" or "None" may be a category.
//
// Immutable: safe to share between threads.
class MissingMarks {
 public:
  MissingMarks() = default;
  explicit MissingMarks(const std::vector<std::string>& marks);
  MissingMarks(std::initializer_list<std::string> marks)
      : MissingMarks(std::vector<std::string>(marks)) {}

  // Whether `cell` is missing.
  bool Matches(absl::string_view cell) const;
  // Whether `cell` is missing only because it is a default mark.
  bool MatchesDefault(absl::string_view cell) const;

 private:
  bool MatchesOwn(absl::string_view cell) const;

  bool has_defaults_ = true;
  absl::flat_hash_set<std::string> own_;
  absl::flat_hash_set<double> own_numbers_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_MISSING_MARKS_H_
