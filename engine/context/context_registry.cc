#include "engine/context/context_registry.h"

#include <algorithm>

namespace chorale {

std::shared_ptr<const RegisteredContext> ContextRegistry::Find(const std::string& tenant,
                                                               const std::string& name) {
  MutexLock lock(&mutex_);
  const auto found = contexts_.find(Key(tenant, name));
  return found == contexts_.end() ? nullptr : found->second.lock();
}

void ContextRegistry::BeginLoad(const std::string& tenant, const std::string& name) {
  MutexLock lock(&mutex_);
  loading_ = Key(tenant, name);
}

bool ContextRegistry::Publish(const std::shared_ptr<const RegisteredContext>& context) {
  MutexLock lock(&mutex_);
  Key key(context->record.tenant, context->record.name);
  if (loading_ != key) return false;
  loading_.reset();
  if (contexts_.size() >= sweep_at_) SweepExpired();
  contexts_[std::move(key)] = context;
  return true;
}

void ContextRegistry::Invalidate(const std::string& tenant, const std::string& name) {
  std::shared_ptr<const RegisteredContext> old;  // let go of after the lock
  MutexLock lock(&mutex_);
  const Key key(tenant, name);
  if (loading_ == key) loading_.reset();
  const auto found = contexts_.find(key);
  if (found == contexts_.end()) return;
  old = found->second.lock();
  if (old != nullptr) old->deleted = true;
  contexts_.erase(found);
}

// Expired entries are swept when the map has doubled since the last sweep: constant amortised cost,
// and at most about as many dead entries as live ones.
void ContextRegistry::SweepExpired() {
  for (auto it = contexts_.begin(); it != contexts_.end();) {
    it = it->second.expired() ? contexts_.erase(it) : std::next(it);
  }
  sweep_at_ = std::max<size_t>(64, 2 * contexts_.size());
}

}  // namespace chorale
