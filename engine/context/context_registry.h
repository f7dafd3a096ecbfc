// Which registered contexts are known in memory, so that a request against one need not read the
// store.
#ifndef CHORALE_ENGINE_CONTEXT_CONTEXT_REGISTRY_H_
#define CHORALE_ENGINE_CONTEXT_CONTEXT_REGISTRY_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "engine/context/registered_context.h"

namespace chorale {

// Holds no context alive: it finds those that the cache or a request holds.
//
// Thread-safe. At most one load is in progress at any time (the loader thread's).
class ContextRegistry {
 public:
  // Null when it is not in memory.
  std::shared_ptr<const RegisteredContext> Find(const std::string& tenant, const std::string& name);

  // Says that the store is about to be read for this context.
  void BeginLoad(const std::string& tenant, const std::string& name);
  // Ends the load; from now on Find returns `context`. False, and nothing is changed, when the
  // registration was invalidated since BeginLoad: what was read may be out of date.
  bool Publish(const std::shared_ptr<const RegisteredContext>& context);

  // Call after the store has changed what the name stands for. From now on the old registration is
  // not found any more, and marked deleted for those who hold it.
  void Invalidate(const std::string& tenant, const std::string& name);

 private:
  using Key = std::pair<std::string, std::string>;  // (tenant, name)

  void SweepExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<Key, std::weak_ptr<const RegisteredContext>> contexts_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
  std::optional<Key> loading_ ABSL_GUARDED_BY(mutex_);  // reset when invalidated
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_REGISTRY_H_
