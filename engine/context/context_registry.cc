#include "engine/context/context_registry.h"

#include <algorithm>

namespace chorale {
namespace {

// Of the data, and at most as much again for what the transform keeps of the dataset.
int64_t HostBytes(const RegisteredContext& context) {
  const ContextData& data = *context.data;
  const size_t data_bytes = (data.features.x.size() + data.y.size()) * sizeof(float) +
                            data.features.missing.size() + data.features.categorical.size();
  return static_cast<int64_t>(data_bytes) + context.record.dataset_bytes;
}

}  // namespace

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
  if (loading_ != Key(context->record.tenant, context->record.name)) return false;
  loading_.reset();
  Insert(context);
  return true;
}

void ContextRegistry::Insert(const std::shared_ptr<const RegisteredContext>& context) {
  if (contexts_.size() >= sweep_at_) SweepExpired();
  contexts_[Key(context->record.tenant, context->record.name)] = context;
}

void ContextRegistry::AddRegistered(std::shared_ptr<const RegisteredContext> context) {
  const int64_t bytes = HostBytes(*context);
  if (bytes > max_registered_bytes_) return;
  std::list<NewRegistration> dropped;  // destroyed after the lock
  MutexLock lock(&mutex_);
  const Key key(context->record.tenant, context->record.name);
  const auto known = contexts_.find(key);
  if (known != contexts_.end() && !known->second.expired()) return;
  if (loading_ == key) loading_.reset();
  Insert(context);
  new_.push_back({std::move(context), bytes});
  new_bytes_ += bytes;
  while (new_bytes_ > max_registered_bytes_) {
    new_bytes_ -= new_.front().bytes;
    dropped.splice(dropped.end(), new_, new_.begin());
  }
}

void ContextRegistry::Release(const RegisteredContext& context) {
  std::shared_ptr<const RegisteredContext> released;  // destroyed after the lock
  MutexLock lock(&mutex_);
  released = Unhold(&context);
}

std::shared_ptr<const RegisteredContext> ContextRegistry::Unhold(const RegisteredContext* context) {
  const auto held = std::find_if(new_.begin(), new_.end(), [&](const NewRegistration& each) {
    return each.context.get() == context;
  });
  if (held == new_.end()) return nullptr;
  std::shared_ptr<const RegisteredContext> released = std::move(held->context);
  new_bytes_ -= held->bytes;
  new_.erase(held);
  return released;
}

void ContextRegistry::Invalidate(const std::string& tenant, const std::string& name) {
  std::shared_ptr<const RegisteredContext> old;  // destroyed after the lock
  MutexLock lock(&mutex_);
  const Key key(tenant, name);
  if (loading_ == key) loading_.reset();
  const auto found = contexts_.find(key);
  if (found == contexts_.end()) return;
  old = found->second.lock();
  if (old != nullptr) old->deleted = true;
  Unhold(old.get());
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
