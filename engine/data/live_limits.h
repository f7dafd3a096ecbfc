// Limits that can change while requests are checked against them.
#ifndef CHORALE_ENGINE_DATA_LIVE_LIMITS_H_
#define CHORALE_ENGINE_DATA_LIVE_LIMITS_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "engine/data/limits.h"

namespace chorale {

// Get gives all of the old limits or all of the new ones; a request that is checked in two places
// while they change may meet both. Old limits stay in memory: they take a hundred bytes, and change
// rarely.
//
// Thread-safe; Get never blocks.
class LiveLimits {
 public:
  explicit LiveLimits(const Limits& limits = {}) { Set(limits); }

  // Immutable, and valid as long as this object.
  const Limits& Get() const { return *current_.load(std::memory_order_acquire); }

  void Set(const Limits& limits) {
    MutexLock lock(&mutex_);
    all_.push_back(std::make_unique<const Limits>(limits));
    current_.store(all_.back().get(), std::memory_order_release);
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<const Limits>> all_ ABSL_GUARDED_BY(mutex_);
  std::atomic<const Limits*> current_{nullptr};
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_LIVE_LIMITS_H_
