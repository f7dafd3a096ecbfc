// Invariants:
//   1. index_ contains the entries that Acquire may find: all except failed and deleted entries.
//   2. entry->kv is a range of allocator_ exactly in the states for which HasKv is true.
//      entry->workspace is a range of workspaces_ in the states reading and encoding, unless the
//      encoding needs no workspace. entry->host is a range of host_ exactly while entry->saved is
//      not null (saving, saved, restoring, or waiting again), and while its file is read into this
//      range.
//   3. An entry is in lru_ if and only if it is resident and has no pins. An entry is in saved_lru_
//      if and only if it is saved; a saved entry has no pins.
//   4. jobs_ contains exactly the entries that have work (encoding, saving or restoring), and the
//      copy of write_.
//   5. An entry without pins is not waiting, loading or failed, and is in index_. (Its context may
//      be gone only between this event and PurgeDeleted. Reading, encoding and restoring continue
//      after the last pin is released. So a client whose deadline is shorter than an encoding
//      succeeds when it retries later.)
//   6. A resident entry that stays resident is in neither lru_ nor saved_lru_.
//   7. An entry has a prefix only while it is waiting, reading or encoding. The entry of the prefix
//      is resident, and so has no prefix itself. An entry awaits another, and has data, only while
//      it is waiting and is not saved.
//   8. Releasing the prefix of an entry, or the entry that it awaits, may drop the other entry. A
//      loop over entries_ that drops entries therefore keeps their prefixes until it has ended.
#include "engine/context/context_cache.h"

#include <algorithm>
#include <utility>

#include "base/require.h"
#include "base/status_macros.h"
#include "engine/context/context_cache_entry.h"

namespace chorale {

// ---- Pin -----------------------------------------------------------------------------------

ContextCache::Pin::Pin(ContextCache* cache, Entry* entry) : cache_(cache), entry_(entry) {
  cache_->AddPin(entry_);
}

ContextCache::Pin& ContextCache::Pin::operator=(Pin&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  cache_ = std::exchange(other.cache_, nullptr);
  entry_ = std::exchange(other.entry_, nullptr);
  return *this;
}

void ContextCache::Pin::Reset() {
  if (entry_ != nullptr) cache_->RemovePin(std::exchange(entry_, nullptr));
}

std::shared_ptr<const ResidentContext> ContextCache::Pin::resident() const {
  return entry_ == nullptr ? nullptr : entry_->resident;
}

const absl::Status& ContextCache::Pin::status() const { return entry_->status; }

bool ContextCache::Pin::waits_for_room() const {
  return (entry_->state == State::kWaiting && !entry_->awaited) || entry_->state == State::kSaving;
}

void ContextCache::Pin::StayResident() {
  Require(entry_->state == State::kResident, "a context that stays resident is resident");
  entry_->stays = true;
  entry_->context->pinned = true;
}

bool ContextCache::Pin::keeps_prefix() const {
  return entry_->state == State::kWaiting && (entry_->prefix || entry_->awaited);
}

bool ContextCache::Pin::purgeable() const { return entry_->context->purgeable(); }

bool ContextCache::Pin::restoring() const {
  return entry_->state == State::kRestoring || entry_->state == State::kLoading;
}

// ---- Cache ---------------------------------------------------------------------------------

ContextCache::ContextCache(Backend* backend, MetricsSink* metrics)
    : backend_(backend),
      metrics_(metrics),
      allocator_(backend->context_pool_bytes()),
      workspaces_(backend->encode_pool_bytes()),
      host_(backend->host_context_pool_bytes()),
      host_reaches_contexts_(backend->ContextMemory({}) != nullptr) {}

ContextCache::~ContextCache() { Clear(); }

absl::StatusOr<ContextCache::Pin> ContextCache::Acquire(const ContextPointer& context,
                                                        absl::Time now, int64_t max_tenant_bytes) {
  std::unique_ptr<ContextData> data = std::move(context->data);
  RETURN_IF_ERROR(CheckAcquire(*context, max_tenant_bytes));
  const auto found = index_.find(context.get());
  if (found != index_.end()) {
    found->second->max_tenant_bytes = max_tenant_bytes;
    context->max_tenant_bytes = max_tenant_bytes;
    CountLookup(*found->second);
    return Pin(this, found->second);
  }
  PlaceWaiting(now);  // earlier entries come first, and may be predecessors
  Entry* const entry = Enter(context, max_tenant_bytes);
  CountLookup(*entry);
  return Begin(entry, std::move(data), now);
}

// Creates the entry of a context.
ContextCache::Entry* ContextCache::Enter(const ContextPointer& context, int64_t max_tenant_bytes) {
  entries_.emplace_back();
  Entry* entry = &entries_.back();
  entry->self = std::prev(entries_.end());
  entry->context = context;
  entry->max_tenant_bytes = max_tenant_bytes;
  context->max_tenant_bytes = max_tenant_bytes;
  entry->has_file = has_file_ && !context->part.has_value() && has_file_(*context);
  index_.emplace(context.get(), entry);
  SetState(entry, State::kWaiting);
  if (!entry->has_file) ChoosePrefix(entry);
  return entry;
}

// Pins a new entry, and starts to make it resident if there is space.
ContextCache::Pin ContextCache::Begin(Entry* entry, std::unique_ptr<ContextData> data,
                                      absl::Time now) {
  Pin pin(this, entry);
  entry->data = std::move(data);
  PlaceWaiting(now);
  return pin;
}

void ContextCache::OnRegistered(const RegisteredContext& context, bool stays) {
  context.registered = true;
  const auto found = index_.find(&context);
  if (found == index_.end()) return;
  Entry* const entry = found->second;
  const Pin unpinned_last(this, entry);  // enters the list of its new state
  entry->stays = stays;
  context.pinned = stays;
  entry->unwritten = has_file_ != nullptr;
  if (entry->unwritten) QueueWrite(*entry);
}

bool ContextCache::IsIndexed(const Entry& entry) const {
  const auto found = index_.find(entry.context.get());
  return found != index_.end() && found->second == &entry;
}

// Fails all requests that wait for the entry. The next Acquire tries again.
void ContextCache::Fail(Entry* entry, absl::Status why) {
  index_.erase(entry->context.get());
  entry->prefix.Reset();
  entry->awaited.Reset();
  entry->data.reset();
  ReleaseWorkspace(entry);
  if (entry->HasKv()) ReleaseKv(entry);
  entry->status = std::move(why);
  SetState(entry, State::kFailed);
}

// The engine calls this in every tick, and a pool may hold a hundred thousand small contexts.
// Therefore the loop runs only if some entries wait.
void ContextCache::PlaceWaiting(absl::Time now) {
  if (Count(State::kWaiting) == 0) return;
  bool all_placed = true;
  for (Entry& entry : entries_) {
    if (entry.state != State::kWaiting || AwaitsPrefix(&entry)) continue;
    all_placed &= Place(&entry, now);
    entry.data.reset();  // contexts that wait for space use no memory
  }
  if (all_placed || !WritesPinned() || now < write_->began + kWriteGrace) return;
  GiveUpWrite();
  PlaceWaiting(now);
}

absl::Time ContextCache::NextPlacing() const {
  if (Count(State::kWaiting) == 0 || !WritesPinned()) return absl::InfiniteFuture();
  const bool for_room = std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.state == State::kWaiting && !entry.awaited;
  });
  return for_room ? write_->began + kWriteGrace : absl::InfiniteFuture();
}

std::vector<ContextCache::ContextPointer> ContextCache::TakeReads() {
  std::vector<ContextPointer> reads;
  if (Count(State::kReading) == 0) return reads;
  for (Entry& entry : entries_) {
    if (std::exchange(entry.read_wanted, false)) reads.push_back(entry.context);
  }
  return reads;
}

void ContextCache::OnData(const ContextPointer& context, absl::StatusOr<ContextData> data) {
  if (Count(State::kReading) == 0) return;
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.context == context && entry.state == State::kReading;
  });
  if (found == entries_.end()) return;  // dropped in the meantime
  Entry* entry = &*found;
  if (data.ok()) {
    StartEncoding(entry, *std::move(data));
    return;
  }
  Fail(entry, data.status());
  if (entry->pins == 0) Drop(entry);
}

bool ContextCache::Uses(const ServedModel& model) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.context->model.get() == &model; });
}

void ContextCache::PurgeDeleted() {
  if (WritesPinned() && write_->pin.entry_->context->gone()) GiveUpWrite();
  std::vector<Pin> ended;  // destroyed last, because releasing pins may erase entries
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry* entry = &*it++;
    if (!entry->context->purgeable()) continue;
    if (IsIndexed(*entry)) index_.erase(entry->context.get());
    if (entry->pins > 0) continue;
    if (entry->prefix) ended.push_back(std::move(entry->prefix));
    Drop(entry);
  }
}

void ContextCache::Clear() {
  std::vector<Pin> ended;
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry* entry = &*it++;
    if (!entry->prefix) continue;
    ended.push_back(std::move(entry->prefix));
    Drop(entry);
  }
  ended.clear();
  while (!entries_.empty()) {
    Require(entries_.front().pins == 0, "the cache is cleared when nothing is pinned");
    Drop(&entries_.front());
  }
}

void ContextCache::AddPin(Entry* entry) {
  if (entry->pins++ > 0) return;
  LeaveLru(entry);
  // The entry queues behind earlier requests. A new Acquire does not stop an eviction that is
  // saving its entry: otherwise the context that needs the range could wait forever.
  if (entry->saved != nullptr) entries_.splice(entries_.end(), entries_, entry->self);
  if (entry->state == State::kSaved) SetState(entry, State::kWaiting);
}

void ContextCache::RemovePin(Entry* entry) {
  Require(entry->pins > 0, "a pin that is removed was added");
  if (--entry->pins > 0) return;
  const bool waits = entry->state == State::kWaiting;
  const bool unsaved = entry->saved == nullptr;
  const bool done = !IsIndexed(*entry) || entry->context->part.has_value();
  if (done || (waits && unsaved) || entry->state == State::kFailed) {
    Drop(entry);
  } else if (waits) {
    SetState(entry, State::kSaved);
    EnterLru(entry, &saved_lru_);
  } else if (entry->state == State::kResident && !entry->stays) {
    EnterLru(entry, &lru_);
    if (allocator_.in_use() > allocator_.limit()) Evict(entry);
  }
}

// Removes the entry and frees its ranges and its work. REQUIRES: no pins.
void ContextCache::Drop(Entry* entry) {
  Require(entry->pins == 0, "an entry that is dropped has no pins");
  const Pin unpinned_last = std::move(entry->prefix);
  const Pin unpinned_first = std::move(entry->awaited);
  const auto indexed = index_.find(entry->context.get());
  if (indexed != index_.end() && indexed->second == entry) index_.erase(indexed);
  LeaveLru(entry);
  if (entry->work != nullptr) EndJob(entry);
  --by_state_[static_cast<size_t>(entry->state)];
  const bool had_kv = entry->HasKv();
  if (had_kv && entry->context->model->removed) metrics_->Eviction(EvictionReason::kModelUnloaded);
  entry->resident.reset();
  ReleaseWorkspace(entry);  // of an entry that is still being read
  ReleaseHost(entry);
  if (had_kv) ReleaseKv(entry);
  // A failed entry may have a successor for the same context, which now sets this state.
  if (entry->state != State::kFailed) entry->context->state = ContextState::kNotResident;
  entries_.erase(entry->self);
}

void ContextCache::SetState(Entry* entry, State state) {
  if (entry->counted) --by_state_[static_cast<size_t>(entry->state)];
  entry->counted = true;
  entry->state = state;
  ++by_state_[static_cast<size_t>(state)];
  switch (state) {
    case State::kWaiting:
    case State::kSaving:
    case State::kSaved:
    case State::kFailed:
      entry->context->state = ContextState::kNotResident;
      return;
    case State::kReading:
    case State::kLoading:
    case State::kEncoding:
    case State::kRestoring:
      entry->context->state = ContextState::kEncoding;
      return;
    case State::kResident:
      entry->context->state = ContextState::kResident;
      return;
  }
}

ContextCounts ContextCache::counts() const {
  return {.waiting = Count(State::kWaiting),
          .reading = Count(State::kReading),
          .encoding = Count(State::kEncoding),
          .resident = Count(State::kResident),
          .saving = Count(State::kSaving),
          .saved = Count(State::kSaved),
          .restoring = Count(State::kLoading) + Count(State::kRestoring),
          .pinned_bytes = bytes_in_use() - evictable_bytes_,
          .host_bytes = host_.in_use()};
}

// Counts a lookup of an entry, in the state in which the request finds or creates it. No request
// finds a local context of another.
void ContextCache::CountLookup(const Entry& entry) {
  if (entry.context->part.has_value()) return;
  ContextLookup result = ContextLookup::kMiss;
  if (entry.state == State::kResident) {
    result = ContextLookup::kHit;
  } else if (entry.state == State::kLoading || entry.has_file) {
    result = ContextLookup::kDiskHit;
  } else if (entry.saved != nullptr) {
    result = ContextLookup::kHostHit;
  }
  metrics_->Lookup(result);
}

}  // namespace chorale
