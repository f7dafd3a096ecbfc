#include "engine/context/context_registry.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace chorale {
namespace {

// Returns an estimate that is also valid for many small contexts: it includes the objects, and the
// strings of column names and categories. The dataset's size is the upper bound for the column data
// that the transform and the record keep.
int64_t HostBytes(const RegisteredContext& context, const ContextData& data) {
  constexpr int64_t kColumnBytes = 512;
  constexpr int64_t kCategoryBytes = 64;  // a string and its heap overhead
  int64_t bytes = sizeof(RegisteredContext) + sizeof(ContextData) + context.record.dataset_bytes;
  bytes += static_cast<int64_t>((data.features.x.size() + data.y.size()) * sizeof(float) +
                                data.features.missing.size() + data.features.categorical.size());
  for (const ColumnInfo& column : context.record.columns) {
    bytes += kColumnBytes + column.categories * kCategoryBytes;
  }
  return bytes;
}

}  // namespace

std::shared_ptr<const RegisteredContext> ContextRegistry::Find(const std::string& tenant,
                                                               const std::string& name) {
  MutexLock lock(&mutex_);
  const auto found = contexts_.find(Key(tenant, name));
  return found == contexts_.end() ? nullptr : found->second.context.lock();
}

void ContextRegistry::BeginLoad(const std::string& tenant, const std::string& name) {
  MutexLock lock(&mutex_);
  loading_ = Key(tenant, name);
}

bool ContextRegistry::Publish(const std::shared_ptr<const RegisteredContext>& context) {
  MutexLock lock(&mutex_);
  if (loading_ != Key(context->record.tenant, context->record.name)) return false;
  loading_.reset();
  return !context->model->removed && Insert(context) != nullptr;
}

ContextRegistry::Entry* ContextRegistry::Insert(
    const std::shared_ptr<const RegisteredContext>& context) {
  if (contexts_.size() >= sweep_at_) SweepExpired();
  Entry& entry = contexts_[Key(context->record.tenant, context->record.name)];
  if (!entry.context.expired()) return nullptr;
  entry.context = context;
  return &entry;
}

void ContextRegistry::AddRegistered(std::shared_ptr<const RegisteredContext> context) {
  const int64_t bytes = HostBytes(*context, *context->data);
  HeldList dropped;  // destroyed after the lock
  MutexLock lock(&mutex_);
  if (bytes > max_registered_bytes_ || context->model->removed) return;
  if (Entry* const entry = Insert(context)) Hold(entry, std::move(context), bytes, &dropped);
}

void ContextRegistry::Hold(Entry* entry, std::shared_ptr<const RegisteredContext> context,
                           int64_t bytes, HeldList* dropped) {
  if (bytes > max_registered_bytes_) return;
  new_.push_back({std::move(context), nullptr, bytes});
  entry->held = std::prev(new_.end());
  new_bytes_ += bytes;
  FitRegistered(dropped);
}

void ContextRegistry::Supersede(const std::shared_ptr<const RegisteredContext>& context,
                                Holding holding) {
  const int64_t bytes = holding == Holding::kHeld ? HostBytes(*context, *context->data) : 0;
  std::shared_ptr<const RegisteredContext> old;  // destroyed after the lock, as is `dropped`
  HeldList dropped;
  MutexLock lock(&mutex_);
  old = Remove(Key(context->record.tenant, context->record.name), Cause::kReplaced, &dropped);
  if (context->model->removed) return;
  Entry* const entry = Insert(context);
  if (holding == Holding::kHeld) Hold(entry, context, bytes, &dropped);
}

void ContextRegistry::FitRegistered(HeldList* dropped) {
  while (new_bytes_ + table_bytes_ > max_registered_bytes_) {
    if (!tables_.empty()) {
      UnholdTable(&EntryOf(*tables_.front().context), dropped);
    } else {
      Unhold(&EntryOf(*new_.front().context), dropped);
    }
  }
}

ContextRegistry::Entry& ContextRegistry::EntryOf(const RegisteredContext& context) {
  return contexts_.at(Key(context.record.tenant, context.record.name));
}

void ContextRegistry::HoldTable(std::shared_ptr<const RegisteredContext> context,
                                std::shared_ptr<const ContextData> table) {
  const int64_t bytes = HostBytes(*context, *table);
  HeldList dropped;  // destroyed after the lock
  MutexLock lock(&mutex_);
  const auto found = contexts_.find(Key(context->record.tenant, context->record.name));
  const bool registered = found != contexts_.end() && found->second.context.lock() == context;
  if (!registered || new_bytes_ + bytes > max_registered_bytes_) return;
  UnholdTable(&found->second, &dropped);
  tables_.push_back({std::move(context), std::move(table), bytes});
  found->second.table = std::prev(tables_.end());
  table_bytes_ += bytes;
  FitRegistered(&dropped);
}

std::shared_ptr<const ContextData> ContextRegistry::FindTable(const RegisteredContext& context) {
  MutexLock lock(&mutex_);
  const auto found = contexts_.find(Key(context.record.tenant, context.record.name));
  if (found == contexts_.end() || !found->second.table) return nullptr;
  const HeldList::iterator held = *found->second.table;
  if (held->context.get() != &context) return nullptr;
  tables_.splice(tables_.end(), tables_, held);
  return held->table;
}

void ContextRegistry::LimitRegistered(int64_t bytes) {
  HeldList dropped;  // destroyed after the lock
  MutexLock lock(&mutex_);
  max_registered_bytes_ = bytes;
  FitRegistered(&dropped);
}

void ContextRegistry::Release(const RegisteredContext& context) {
  HeldList dropped;  // destroyed after the lock
  MutexLock lock(&mutex_);
  const auto found = contexts_.find(Key(context.record.tenant, context.record.name));
  if (found == contexts_.end() || !found->second.held) return;
  if ((*found->second.held)->context.get() == &context) Unhold(&found->second, &dropped);
}

void ContextRegistry::Unhold(Entry* entry, HeldList* dropped) {
  if (!entry->held) return;
  new_bytes_ -= (*entry->held)->bytes;
  dropped->splice(dropped->end(), new_, *entry->held);
  entry->held.reset();
}

void ContextRegistry::UnholdTable(Entry* entry, HeldList* dropped) {
  if (!entry->table) return;
  table_bytes_ -= (*entry->table)->bytes;
  dropped->splice(dropped->end(), tables_, *entry->table);
  entry->table.reset();
}

int64_t ContextRegistry::held_bytes() const {
  MutexLock lock(&mutex_);
  return new_bytes_ + table_bytes_;
}

void ContextRegistry::Invalidate(const std::string& tenant, const std::string& name, Cause cause) {
  std::shared_ptr<const RegisteredContext> old;  // destroyed after the lock, as is `dropped`
  HeldList dropped;
  MutexLock lock(&mutex_);
  old = Remove(Key(tenant, name), cause, &dropped);
}

std::shared_ptr<const RegisteredContext> ContextRegistry::Remove(const Key& key, Cause cause,
                                                                 HeldList* dropped) {
  if (loading_ == key) loading_.reset();
  const auto found = contexts_.find(key);
  if (found == contexts_.end()) return nullptr;
  std::shared_ptr<const RegisteredContext> old = found->second.context.lock();
  if (old != nullptr) {
    if (cause == Cause::kReplaced) old->replaced = true;  // before readers of `deleted` look for it
    old->deleted = true;
  }
  Unhold(&found->second, dropped);
  UnholdTable(&found->second, dropped);
  contexts_.erase(found);
  return old;
}

void ContextRegistry::Forget(const ServedModel& model) {
  std::vector<std::shared_ptr<const RegisteredContext>> old;  // destroyed after the lock
  HeldList dropped;                                           // also destroyed after the lock
  MutexLock lock(&mutex_);
  for (auto it = contexts_.begin(); it != contexts_.end();) {
    const auto entry = it++;
    std::shared_ptr<const RegisteredContext> context = entry->second.context.lock();
    if (context == nullptr || context->model.get() != &model) continue;
    old.push_back(std::move(context));
    Unhold(&entry->second, &dropped);
    UnholdTable(&entry->second, &dropped);
    contexts_.erase(entry);
  }
}

// Expired entries are removed when the map has doubled since the last sweep. The amortised cost is
// constant, and there are at most about as many expired entries as live entries.
void ContextRegistry::SweepExpired() {
  for (auto it = contexts_.begin(); it != contexts_.end();) {
    it = it->second.context.expired() ? contexts_.erase(it) : std::next(it);
  }
  sweep_at_ = std::max<size_t>(64, 2 * contexts_.size());
}

}  // namespace chorale
