// The times at which contexts were last used, until the store has them.
#ifndef CHORALE_ENGINE_CONTEXT_USE_LOG_H_
#define CHORALE_ENGINE_CONTEXT_USE_LOG_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "engine/store/context_store.h"

namespace chorale {

// Has an entry for each context that was used since the last Take. Thread-safe.
class UseLog {
 public:
  void Note(const std::string& tenant, const std::string& name, absl::Time time) {
    MutexLock lock(&mutex_);
    last_[{tenant, name}] = time;
  }

  // Returns InfinitePast if the context was not used since the last Take.
  absl::Time LastUse(const std::string& tenant, const std::string& name) const {
    MutexLock lock(&mutex_);
    const auto found = last_.find({tenant, name});
    return found == last_.end() ? absl::InfinitePast() : found->second;
  }

  void Forget(const std::string& tenant, const std::string& name) {
    MutexLock lock(&mutex_);
    last_.erase({tenant, name});
  }

  // Adds the uses of an earlier Take, as far as there are no later ones.
  void Restore(const std::vector<ContextUse>& uses) {
    MutexLock lock(&mutex_);
    for (const ContextUse& use : uses) last_.emplace(std::pair(use.tenant, use.name), use.time);
  }

  // Returns the last use of each context, and forgets all.
  std::vector<ContextUse> Take() {
    std::map<std::pair<std::string, std::string>, absl::Time> taken;
    {
      MutexLock lock(&mutex_);
      taken.swap(last_);
    }
    std::vector<ContextUse> uses;
    uses.reserve(taken.size());
    for (const auto& [key, time] : taken) uses.push_back({key.first, key.second, time});
    return uses;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::pair<std::string, std::string>, absl::Time> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_USE_LOG_H_
