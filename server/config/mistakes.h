// All that is wrong with a configuration, so that it can be put right in one go.
#ifndef CHORALE_SERVER_CONFIG_MISTAKES_H_
#define CHORALE_SERVER_CONFIG_MISTAKES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chorale {

class Mistakes {
 public:
  // The status's lines; OK adds nothing, and a line that is there is not added again.
  void Add(const absl::Status& status);
  void Add(absl::string_view lines);

  bool empty() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }
  // OK, or InvalidArgument with a line for each.
  absl::Status ToStatus() const;
  // The same for those of one file, which may have thousands: the first of them, and a line that
  // says how many more there are.
  absl::Status ToStatusOf(absl::string_view file) const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_MISTAKES_H_
