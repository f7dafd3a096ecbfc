// Which parts of a pool are in use.
#ifndef CHORALE_TESTS_ENGINE_USED_RANGES_H_
#define CHORALE_TESTS_ENGINE_USED_RANGES_H_

#include <list>
#include <memory>

#include "engine/backend/backend.h"
#include "gtest/gtest.h"

namespace chorale::testing {

// The ranges of a pool that live objects read or write, as in a lock for readers and writers. Not
// thread-safe.
class UsedRanges {
 public:
  enum class Access { kRead, kWrite };
  // Ends when the last copy is destroyed, which must be before the pool.
  using Use = std::shared_ptr<const void>;

  // Adds a failure if another use writes to a part of the range, or, for kWrite, if another use
  // reads it.
  Use Begin(const PoolRange& range, Access access) {
    for (const Entry& other : entries_) {
      if (access == Access::kWrite || other.access == Access::kWrite) CheckApart(range, other);
    }
    const auto entry = entries_.insert(entries_.end(), {range, access});
    return Use(&*entry, [this, entry](const void* /*unused*/) { entries_.erase(entry); });
  }

  // Adds a failure if a part of the range is in use.
  void CheckUnused(const PoolRange& range) const {
    for (const Entry& entry : entries_) CheckApart(range, entry);
  }

 private:
  struct Entry {
    PoolRange range;
    Access access;
  };

  static void CheckApart(const PoolRange& range, const Entry& used) {
    EXPECT_TRUE(range.offset + range.bytes <= used.range.offset ||
                used.range.offset + used.range.bytes <= range.offset)
        << "bytes " << range.offset << " to " << range.offset + range.bytes << " are in use";
  }

  std::list<Entry> entries_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_USED_RANGES_H_
