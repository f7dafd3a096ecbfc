// What a reload changed in a file of entries.
#ifndef CHORALE_SERVER_SECURITY_ENTRY_CHANGES_H_
#define CHORALE_SERVER_SECURITY_ENTRY_CHANGES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace chorale {

struct EntryChanges {
  int64_t added = 0;
  int64_t removed = 0;
  int64_t changed = 0;
  int64_t before = 0;  // entries
  int64_t now = 0;

  bool any() const { return added + removed + changed > 0; }

  // For the log: "1 added, 2 removed, 1 changed: 7 now".
  std::string ToString() const {
    return absl::StrCat(added, " added, ", removed, " removed, ", changed, " changed: ", now,
                        " now");
  }

  // Of two maps with the same keys and values.
  template <typename Map, typename Equal>
  static EntryChanges Between(const Map& before, const Map& after, Equal equal) {
    EntryChanges changes;
    changes.before = static_cast<int64_t>(before.size());
    changes.now = static_cast<int64_t>(after.size());
    for (const auto& [name, entry] : after) {
      const auto found = before.find(name);
      if (found == before.end()) {
        ++changes.added;
      } else if (!equal(found->second, entry)) {
        ++changes.changed;
      }
    }
    for (const auto& [name, entry] : before) changes.removed += after.contains(name) ? 0 : 1;
    return changes;
  }
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_ENTRY_CHANGES_H_
