// The changes of a reload in a file with entries.
#ifndef CHORALE_SERVER_SECURITY_ENTRY_CHANGES_H_
#define CHORALE_SERVER_SECURITY_ENTRY_CHANGES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace chorale {

// "a,b,c"; for many names only the first, and the number of the others.
inline std::string FirstNames(absl::Span<const std::string> names) {
  constexpr size_t kMost = 10;
  const size_t shown = std::min(names.size(), kMost);
  std::string text = absl::StrJoin(names.first(shown), ",");
  if (shown < names.size()) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

struct EntryChanges {
  std::vector<std::string> added;
  std::vector<std::string> removed;
  std::vector<std::string> changed;
  int64_t before = 0;  // entries
  int64_t now = 0;

  bool any() const { return !added.empty() || !removed.empty() || !changed.empty(); }

  // For the log: "added alice; removed bob,carol: 7 now".
  std::string ToString() const {
    std::string text;
    const auto add = [&text](const char* what, const std::vector<std::string>& names) {
      if (names.empty()) return;
      absl::StrAppend(&text, text.empty() ? "" : "; ", what, " ", FirstNames(names));
    };
    add("added", added);
    add("removed", removed);
    add("changed", changed);
    return absl::StrCat(text, ": ", now, " now");
  }

  // Between two maps by name with the same types of keys and values.
  template <typename Map, typename Equal>
  static EntryChanges Between(const Map& before, const Map& after, Equal equal) {
    EntryChanges changes;
    changes.before = static_cast<int64_t>(before.size());
    changes.now = static_cast<int64_t>(after.size());
    for (const auto& [name, entry] : after) {
      const auto found = before.find(name);
      if (found == before.end()) {
        changes.added.emplace_back(name);
      } else if (!equal(found->second, entry)) {
        changes.changed.emplace_back(name);
      }
    }
    for (const auto& [name, entry] : before) {
      if (!after.contains(name)) changes.removed.emplace_back(name);
    }
    return changes;
  }
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_ENTRY_CHANGES_H_
