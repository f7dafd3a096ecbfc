// An index of the registered contexts in memory, so that requests for them need not read the store.
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

// Finds the contexts that the cache or a request holds. The registry itself holds only new
// registrations with their data, until the first request for them, and the tables of contexts of
// which calls use a part, together up to `max_registered_bytes`.
//
// Thread-safe. At most one load is in progress at any time, on the loader thread.
class ContextRegistry {
 public:
  explicit ContextRegistry(int64_t max_registered_bytes = 0)
      : max_registered_bytes_(max_registered_bytes) {}

  // Returns null if the context is not in memory.
  std::shared_ptr<const RegisteredContext> Find(const std::string& tenant, const std::string& name);

  // Begins a load. Call it before reading this context from the store.
  void BeginLoad(const std::string& tenant, const std::string& name);
  // Ends the load; from now on Find returns `context`. Returns false and changes nothing if the
  // registration was invalidated since BeginLoad, because the data may then be out of date, or if a
  // context with this name is already in memory.
  bool Publish(const std::shared_ptr<const RegisteredContext>& context);

  // Holds a new registration with its data, and drops tables, the least recently used first, and
  // then the oldest new registrations, until all fit into max_registered_bytes. Does nothing if
  // `context` alone exceeds the limit, or if a context with this name is already in memory. Call it
  // after the store has changed the registration of the name.
  void AddRegistered(std::shared_ptr<const RegisteredContext> context);
  enum class Holding { kHeld, kNotHeld };
  // Lets requests find a registration with appended rows, or that was encoded anew, instead of the
  // earlier one, which is marked as replaced for its holders; no request finds neither. kHeld: also
  // holds it with its data, as AddRegistered does. kNotHeld: the cache holds it. Call it after the
  // store has changed the registration of the name.
  void Supersede(const std::shared_ptr<const RegisteredContext>& context, Holding holding);
  // Stops holding a new registration, because a request holds it now. No-op for other contexts.
  void Release(const RegisteredContext& context);

  // Holds the table of a context for further calls, and drops the least recently used tables until
  // all fit. Does nothing if the table does not fit beside the new registrations, or if the context
  // is no longer registered.
  void HoldTable(std::shared_ptr<const RegisteredContext> context,
                 std::shared_ptr<const ContextData> table);
  // Returns null if the table is not held.
  std::shared_ptr<const ContextData> FindTable(const RegisteredContext& context);

  // Changes max_registered_bytes from now on.
  void LimitRegistered(int64_t bytes);

  int64_t held_bytes() const;  // of new registrations and of tables

  enum class Cause { kDeleted, kReplaced };
  // Removes the registration, and marks it as deleted or replaced for its holders. Call it after
  // the store has changed the registration of the name.
  void Invalidate(const std::string& tenant, const std::string& name,
                  Cause cause = Cause::kDeleted);
  // Removes the contexts of a model. Contexts of this model that are published later are not found
  // either. Call it after the model was marked as removed.
  void Forget(const ServedModel& model);

 private:
  using Key = std::pair<std::string, std::string>;  // (tenant, name)

  struct Held {
    std::shared_ptr<const RegisteredContext> context;
    std::shared_ptr<const ContextData> table;  // null for a new registration, which has its data
    int64_t bytes = 0;
  };
  using HeldList = std::list<Held>;

  struct Entry {
    std::weak_ptr<const RegisteredContext> context;
    std::optional<HeldList::iterator> held;   // set while new_ holds it
    std::optional<HeldList::iterator> table;  // set while tables_ holds its table
  };

  // Returns null and changes nothing if a context with this name is already in memory.
  Entry* Insert(const std::shared_ptr<const RegisteredContext>& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Holds a registration that was inserted, if it fits.
  void Hold(Entry* entry, std::shared_ptr<const RegisteredContext> context, int64_t bytes,
            HeldList* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the registration. Returns it if it is in memory; the caller should destroy it, too,
  // without the lock.
  std::shared_ptr<const RegisteredContext> Remove(const Key& key, Cause cause, HeldList* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stop holding the entry's registration, or its table, if it is held, and move it to `dropped`.
  // The caller should destroy `dropped` without the lock, because it may contain the last
  // reference.
  void Unhold(Entry* entry, HeldList* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnholdTable(Entry* entry, HeldList* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SweepExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Drops tables, and then the oldest new registrations, until all fit.
  void FitRegistered(HeldList* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry& EntryOf(const RegisteredContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  int64_t max_registered_bytes_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Entry> contexts_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
  std::optional<Key> loading_ ABSL_GUARDED_BY(mutex_);  // reset when outdated
  HeldList new_ ABSL_GUARDED_BY(mutex_);                // the oldest first
  int64_t new_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  HeldList tables_ ABSL_GUARDED_BY(mutex_);  // the least recently used first
  int64_t table_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_REGISTRY_H_
