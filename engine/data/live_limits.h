// Limits that can change while requests are checked.
#ifndef CHORALE_ENGINE_DATA_LIVE_LIMITS_H_
#define CHORALE_ENGINE_DATA_LIVE_LIMITS_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "engine/data/limits.h"

namespace chorale {

// Get returns either all old or all new limits. A request that is checked in two places during a
// change may see both. Old limits are retained: they take about a hundred bytes, and changes are
// rare.
//
// Thread-safe; Get never blocks.
class LiveLimits {
 public:
  explicit LiveLimits(const Limits& limits = {}) { Set(limits); }

  // The result is immutable, and valid for the lifetime of this object.
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
