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
  const Entry* const prefix = FindPrefix(*context);
  if (prefix == nullptr || index_.contains(context.get())) return Pin();
  const int64_t max_tenant_bytes = prefix->max_tenant_bytes;
  if (!CheckAcquire(*context, max_tenant_bytes).ok()) return Pin();
  return Begin(Enter(context, max_tenant_bytes), std::move(context->data), now);
}

// Returns the resident entry of the latest registration to whose rows those of `context` were
// appended, and whose keys are among its own, or null. It may no longer be in the index.
ContextCache::Entry* ContextCache::FindPrefix(const RegisteredContext& context) {
  for (ContextPointer before = context.predecessor.lock(); before != nullptr;
       before = before->predecessor.lock()) {
    if (!IsPrefix(*before, context) || before->state != ContextState::kResident) continue;
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.context == before && entry.state == State::kResident;
    });
    if (found != entries_.end()) return &*found;
  }
  return nullptr;
}

// Replaces the prefix of the entry by the longest that is resident, if there is one.
void ContextCache::PinPrefix(Entry* entry) {
  Entry* const prefix = FindPrefix(*entry->context);
  if (prefix != nullptr) entry->prefix = Pin(this, prefix);
}

// Returns the rows of which the encoding copies the keys and values.
int64_t ContextCache::PrefixRows(const Entry& entry) {
  return entry.prefix ? entry.prefix.entry_->context->record.rows : 0;
}

double ContextCache::FlopsOf(const Entry& entry) {
  const RegisteredContext& context = *entry.context;
  return EncodeFlops(context.model->info.config, context.record.shape(), context.append_starts,
                     PrefixRows(entry));
}

}  // namespace chorale
