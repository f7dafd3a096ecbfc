// Memory that another thread reads until its owner needs it.
#ifndef CHORALE_ENGINE_POOLS_LENT_MEMORY_H_
#define CHORALE_ENGINE_POOLS_LENT_MEMORY_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "base/mutex.h"

namespace chorale {

// A reader copies one piece at a time, so that the owner does not wait while the reader processes a
// piece, for example writes it to a slow disk.
//
// Thread-safe.
class LentMemory {
 public:
  explicit LentMemory(absl::Span<const char> memory) : memory_(memory) {}

  // Fills `to` with the bytes from `offset` on. Returns false and copies nothing if the owner has
  // taken the memory back. REQUIRES: offset + to.size() is at most the memory's size.
  bool Copy(int64_t offset, absl::Span<char> to) const {
    MutexLock lock(&mutex_);
    if (taken_back_) return false;
    const absl::Span<const char> from = memory_.subspan(static_cast<size_t>(offset), to.size());
    std::copy(from.begin(), from.end(), to.begin());
    return true;
  }

  // No reader accesses the memory after this call, which waits for at most one Copy.
  void TakeBack() {
    MutexLock lock(&mutex_);
    taken_back_ = true;
  }

 private:
  const absl::Span<const char> memory_;
  mutable Mutex mutex_;
  bool taken_back_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_POOLS_LENT_MEMORY_H_
