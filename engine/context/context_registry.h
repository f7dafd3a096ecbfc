// Which registered contexts are known in memory, so that a request against one need not read the
// store.
#ifndef CHORALE_ENGINE_CONTEXT_CONTEXT_REGISTRY_H_
#define CHORALE_ENGINE_CONTEXT_CONTEXT_REGISTRY_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "engine/context/registered_context.h"

namespace chorale {

// Finds the contexts that the cache or a request holds. It holds only new registrations itself,
// with their data, until the first request for them or until they exceed `max_registered_bytes`.
//
// Thread-safe. At most one load is in progress at any time (the loader thread's).
class ContextRegistry {
 public:
  explicit ContextRegistry(int64_t max_registered_bytes = 0)
      : max_registered_bytes_(max_registered_bytes) {}

  // Null if it is not in memory.
  std::shared_ptr<const RegisteredContext> Find(const std::string& tenant, const std::string& name);

  // Call before reading the store for this context.
  void BeginLoad(const std::string& tenant, const std::string& name);
  // Ends the load; from now on Find returns `context`. False, and nothing is changed, when the
  // registration was invalidated since BeginLoad, so that what was read may be out of date, or when
  // its name is in memory already.
  bool Publish(const std::shared_ptr<const RegisteredContext>& context);

  // Holds a new registration with its data, and drops the oldest ones until all fit
  // max_registered_bytes. Does nothing when `context` alone exceeds that, or when its name is in
  // memory already. Call after the store has changed what the name stands for, as for Invalidate.
  void AddRegistered(std::shared_ptr<const RegisteredContext> context);
  // Stops holding a new registration because a request holds it now. No-op for other contexts.
  void Release(const RegisteredContext& context);

  // Another max_registered_bytes, from now on.
  void LimitRegistered(int64_t bytes);

  int64_t held_bytes() const;  // by new registrations

  // Call after the store has changed what the name stands for. From now on the old registration is
  // not found any more and is marked deleted for its holders.
  void Invalidate(const std::string& tenant, const std::string& name);
  // Call after the model was marked as removed. Its contexts are not found any more, nor are those
  // that are published later.
  void Forget(const ServedModel& model);

 private:
  using Key = std::pair<std::string, std::string>;  // (tenant, name)

  struct NewRegistration {
    std::shared_ptr<const RegisteredContext> context;
    int64_t bytes = 0;
  };
  using NewRegistrations = std::list<NewRegistration>;

  struct Entry {
    std::weak_ptr<const RegisteredContext> context;
    std::optional<NewRegistrations::iterator> held;  // set while new_ holds it
  };

  // Null, and nothing is changed, when the name is in memory already.
  Entry* Insert(const std::shared_ptr<const RegisteredContext>& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stops holding the entry's registration, if it is held. Moves it to `dropped`, which should be
  // destroyed without the lock: it may have the last reference.
  void Unhold(Entry* entry, NewRegistrations* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SweepExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Drops the oldest new registrations until they fit.
  void FitRegistered(NewRegistrations* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  int64_t max_registered_bytes_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Entry> contexts_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
  std::optional<Key> loading_ ABSL_GUARDED_BY(mutex_);  // reset when what is read is out of date
  NewRegistrations new_ ABSL_GUARDED_BY(mutex_);        // the oldest first
  int64_t new_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_REGISTRY_H_
