#include "server/config/mistakes.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace chorale {

void Mistakes::Add(const absl::Status& status) {
  if (!status.ok()) Add(status.message());
}

void Mistakes::Add(absl::string_view lines) {
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    if (!absl::c_linear_search(lines_, line)) lines_.emplace_back(line);
  }
}

absl::Status Mistakes::ToStatus() const {
  if (lines_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(lines_, "\n"));
}

absl::Status Mistakes::ToStatusOf(absl::string_view file) const {
  constexpr size_t kMost = 10;
  if (lines_.size() <= kMost) return ToStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(absl::StrJoin(lines_.begin(), lines_.begin() + kMost, "\n"), "\n", file,
                   ": and ", lines_.size() - kMost, " more errors"));
}

}  // namespace chorale
