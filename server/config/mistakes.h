// Collects all errors of a configuration, so that an operator can fix them together.
#ifndef CHORALE_SERVER_CONFIG_MISTAKES_H_
#define CHORALE_SERVER_CONFIG_MISTAKES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chorale {

class Mistakes {
 public:
  // Adds the lines of the status; OK adds nothing, and a line is not added twice.
  void Add(const absl::Status& status);
  void Add(absl::string_view lines);

  bool empty() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }
  // OK, or InvalidArgument with one line per error.
  absl::Status ToStatus() const;
  // The same for the errors of a single file, which may have thousands: the first of them, and a
  // line with the number of the others.
  absl::Status ToStatusOf(absl::string_view file) const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_MISTAKES_H_
