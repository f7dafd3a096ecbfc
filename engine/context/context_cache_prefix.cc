// The prefixes of contexts with appended rows. context_cache.cc lists the invariants.
#include <algorithm>
#include <utility>

#include "engine/backend/encode_blocks.h"
#include "engine/backend/flop_model.h"
#include "engine/context/context_cache.h"
#include "engine/context/context_cache_entry.h"

namespace chorale {

namespace {

// Whether the encoding of `context` can begin with the keys of `before`.
bool IsPrefix(const RegisteredContext& before, const RegisteredContext& context) {
  return before.model == context.model &&
         CanBePrefix(before.record.shape(), context.record.shape(), context.append_starts);
}

}  // namespace

ContextCache::Pin ContextCache::AcquireSuccessor(const ContextPointer& context, absl::Time now) {
  if (const auto found = index_.find(context.get()); found != index_.end()) {
    // Its predecessor must stay even if the request ends.
    return found->second->awaited ? Pin(this, found->second) : Pin();
  }
  PlaceWaiting(now);  // earlier entries come first, and may be predecessors
  const Entry* before = FindAwaited(*context);
  if (before == nullptr) before = FindPrefix(*context);
  if (before == nullptr) return Pin();
  const int64_t max_tenant_bytes = before->max_tenant_bytes;
  if (!CheckAcquire(*context, max_tenant_bytes).ok()) return Pin();
  return Begin(Enter(context, max_tenant_bytes), std::move(context->data), now);
}

// Returns the entry of a registration that is resident or being made resident, or null. It may no
// longer be in the index.
ContextCache::Entry* ContextCache::FindBefore(const RegisteredContext& before) {
  if (before.state == ContextState::kNotResident) return nullptr;
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.context.get() == &before && entry.state != State::kFailed;
  });
  return found == entries_.end() ? nullptr : &*found;
}

// Returns the resident entry of the latest registration to whose rows those of `context` were
// appended, and whose keys are among its own, or null.
ContextCache::Entry* ContextCache::FindPrefix(const RegisteredContext& context) {
  for (const auto& earlier : context.predecessors) {
    const ContextPointer before = earlier.lock();
    if (before == nullptr || !IsPrefix(*before, context)) continue;
    Entry* const entry = FindBefore(*before);
    if (entry != nullptr && entry->state == State::kResident) return entry;
  }
  return nullptr;
}

// Returns the entry of such a registration that is later than that of FindPrefix and is being made
// resident, if the pool holds both it and the context, or null.
ContextCache::Entry* ContextCache::FindAwaited(const RegisteredContext& context) {
  for (const auto& earlier : context.predecessors) {
    const ContextPointer before = earlier.lock();
    if (before == nullptr || !IsPrefix(*before, context)) continue;
    Entry* const entry = FindBefore(*before);
    if (entry == nullptr) continue;
    if (entry->state == State::kResident) return nullptr;
    if (FitBoth(*entry, context)) return entry;
  }
  return nullptr;
}

// Returns true if the pool, and the limit of the tenant, have space for both at the same time.
bool ContextCache::FitBoth(const Entry& before, const RegisteredContext& context) const {
  const int64_t bytes = before.kv.bytes + allocator_.RoundUp(context.resident_bytes);
  return bytes <= allocator_.limit() &&
         (before.max_tenant_bytes == 0 || bytes <= before.max_tenant_bytes);
}

// Replaces the prefix of the entry by the longest that is resident, if there is one.
void ContextCache::PinPrefix(Entry* entry) {
  Entry* const prefix = FindPrefix(*entry->context);
  if (prefix != nullptr) entry->prefix = Pin(this, prefix);
}

// Also chooses the entry that this entry awaits.
void ContextCache::ChoosePrefix(Entry* entry) {
  PinPrefix(entry);
  Entry* const awaited = FindAwaited(*entry->context);
  entry->awaited = awaited == nullptr ? Pin() : Pin(this, awaited);
}

// Returns true while a waiting entry awaits another. Chooses again unless the other is still being
// made resident: of several contexts that await the same one, the earlier become predecessors of
// the later. An entry that was denied its prefix for lack of space chooses none again.
bool ContextCache::AwaitsPrefix(Entry* entry) {
  if (!entry->awaited && !entry->prefix) return false;
  const bool in_flight =
      entry->awaited && entry->awaited.entry_->context->state == ContextState::kEncoding;
  if (!in_flight) ChoosePrefix(entry);
  return static_cast<bool>(entry->awaited);
}

// Returns the rows of which the encoding copies the keys and values.
int64_t ContextCache::PrefixRows(const Entry& entry) {
  const Pin& prefix = entry.awaited ? entry.awaited : entry.prefix;
  return prefix ? prefix.entry_->context->record.rows : 0;
}

double ContextCache::FlopsOf(const Entry& entry) {
  const RegisteredContext& context = *entry.context;
  return EncodeFlops(context.model->info.config, context.record.shape(), context.append_starts,
                     PrefixRows(entry));
}

}  // namespace chorale
