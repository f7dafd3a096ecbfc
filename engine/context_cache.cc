// Invariants:
//   1. index_ holds the entries that Acquire may find: all but failed and deleted ones.
//   2. entry->kv is a range of allocator_ exactly in the states reading, encoding and resident;
//      entry->workspace is one of workspaces_ in reading and encoding, unless encoding needs none.
//   3. An entry is in lru_ if and only if it is resident and has no pins.
//   4. encodings_ holds exactly the entries in state encoding.
//   5. An entry without pins is reading, encoding or resident, and not deleted. (Reading and
//      encoding go on when those who wanted the context gave up, so that a client whose deadline
//      is shorter than an encoding gets its answer on a later try.)
#include "engine/context_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/require.h"

namespace chorale {

struct ContextCache::Entry {
  ContextPointer context;
  State state = State::kWaiting;
  PoolRange kv;
  PoolRange workspace;
  std::unique_ptr<EncodeWork> work;                 // while encoding
  std::shared_ptr<const ResidentContext> resident;  // while resident
  absl::Status status;                              // when failed
  absl::Time placed;                                // when it got its room
  int64_t pins = 0;
  bool read_wanted = false;  // reading, and TakeReads has not said so yet
  std::list<Entry>::iterator self;
  std::list<Entry*>::iterator lru_place;  // while in lru_
};

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
  return entry_->resident;
}

const absl::Status& ContextCache::Pin::status() const { return entry_->status; }

bool ContextCache::Pin::waits_for_room() const { return entry_->state == State::kWaiting; }

// ---- Cache ---------------------------------------------------------------------------------

ContextCache::ContextCache(Backend* backend, MetricsSink* metrics)
    : backend_(backend),
      metrics_(metrics),
      allocator_(backend->context_pool_bytes()),
      workspaces_(backend->encode_pool_bytes()) {
  ReportResidency();
}

ContextCache::~ContextCache() { Clear(); }

absl::StatusOr<ContextCache::Pin> ContextCache::Acquire(const ContextPointer& context,
                                                        absl::Time now) {
  const std::unique_ptr<ContextData> data = std::move(context->data);
  if (context->deleted) {
    return absl::NotFoundError(absl::StrCat("context '", context->record.name, "' was deleted"));
  }
  const auto found = index_.find(context.get());
  if (found != index_.end()) return Pin(this, found->second);

  entries_.emplace_back();
  Entry* entry = &entries_.back();
  entry->self = std::prev(entries_.end());
  entry->context = context;
  index_.emplace(context.get(), entry);
  SetState(entry, State::kWaiting);
  Pin pin(this, entry);
  if (Place(entry, now) && data != nullptr) StartEncoding(entry, *std::move(data));
  return pin;
}

void ContextCache::PlaceWaiting(absl::Time now) {
  for (Entry& entry : entries_) {
    if (entry.state == State::kWaiting) Place(&entry, now);
  }
}

std::vector<ContextCache::ContextPointer> ContextCache::TakeReads() {
  std::vector<ContextPointer> reads;
  for (Entry& entry : entries_) {
    if (std::exchange(entry.read_wanted, false)) reads.push_back(entry.context);
  }
  return reads;
}

void ContextCache::OnData(const ContextPointer& context, absl::StatusOr<ContextData> data) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.context == context && entry.state == State::kReading;
  });
  if (found == entries_.end()) return;  // dropped in the meantime
  Entry* entry = &*found;
  if (data.ok()) {
    StartEncoding(entry, *std::move(data));
    return;
  }
  // Everybody who waits hears why; the next one who asks tries again.
  index_.erase(context.get());
  ReleaseWorkspace(entry);
  backend_->ReleaseContext(entry->kv);
  allocator_.Free(entry->kv);
  entry->status = data.status();
  SetState(entry, State::kFailed);
  ReportResidency();
  if (entry->pins == 0) Drop(entry);
}

void ContextCache::CollectEncoded(absl::Time now) {
  bool any = false;
  for (Entry& entry : entries_) {
    if (entry.state != State::kEncoding || !entry.work->done()) continue;
    any = true;
    entry.resident = std::make_shared<const ResidentContext>(entry.work->TakeContext());
    EndEncoding(&entry);
    ++resident_contexts_;
    SetState(&entry, State::kResident);
    metrics_->EncodeTime(now - entry.placed);
    if (entry.pins == 0) entry.lru_place = lru_.insert(lru_.end(), &entry);
  }
  if (any) ReportResidency();
}

void ContextCache::PurgeDeleted() {
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry* entry = &*it++;
    if (!entry->context->deleted) continue;
    index_.erase(entry->context.get());
    if (entry->pins == 0) Drop(entry);
  }
}

void ContextCache::EvictUnpinned() {
  while (!lru_.empty()) Evict(lru_.front());
}

void ContextCache::Clear() {
  while (!entries_.empty()) {
    Require(entries_.front().pins == 0, "the cache is cleared when nothing is pinned");
    Drop(&entries_.front());
  }
}

// Gives the entry its ranges, evicting others when that helps. Other encodings give up their
// workspace by themselves: nothing is evicted for that.
bool ContextCache::Place(Entry* entry, absl::Time now) {
  const RegisteredContext& context = *entry->context;
  const int64_t workspace =
      backend_->EncodeBytes(context.model->weights->config(), context.record.rows);
  if (workspace > 0) {
    const std::optional<PoolRange> range = workspaces_.Allocate(workspace);
    if (!range.has_value()) return false;
    entry->workspace = *range;
  }
  const std::optional<PoolRange> range = FindRoom(context.resident_bytes);
  if (!range.has_value()) {
    ReleaseWorkspace(entry);
    return false;
  }
  entry->kv = *range;
  entry->placed = now;
  entry->read_wanted = true;
  SetState(entry, State::kReading);
  ReportResidency();
  return true;
}

// A range of the context pool, for which others may be evicted.
std::optional<PoolRange> ContextCache::FindRoom(int64_t bytes) {
  std::optional<PoolRange> range = allocator_.Allocate(bytes);
  if (range.has_value() || !EvictionCanFit(bytes)) return range;
  while (!range.has_value()) {
    Evict(lru_.front());
    range = allocator_.Allocate(bytes);
  }
  return range;
}

// Whether `bytes` would fit between the ranges that stay if everything unpinned were evicted:
// nothing is evicted in vain.
bool ContextCache::EvictionCanFit(int64_t bytes) const {
  if (lru_.empty()) return false;
  std::vector<PoolRange> staying;
  for (const Entry& entry : entries_) {
    const bool has_range = entry.state == State::kReading || entry.state == State::kEncoding ||
                           entry.state == State::kResident;
    const bool evictable = entry.state == State::kResident && entry.pins == 0;
    if (has_range && !evictable) staying.push_back(entry.kv);
  }
  std::sort(staying.begin(), staying.end(),
            [](const PoolRange& a, const PoolRange& b) { return a.offset < b.offset; });
  const int64_t needed = allocator_.RoundUp(bytes);
  int64_t end = 0;
  for (const PoolRange& range : staying) {
    if (range.offset - end >= needed) return true;
    end = range.offset + range.bytes;
  }
  return allocator_.capacity() - end >= needed;
}

void ContextCache::StartEncoding(Entry* entry, ContextData data) {
  entry->read_wanted = false;
  // The pool gives back whole multiples of its alignment; the work gets what it asked for.
  entry->work = backend_->NewEncode(
      entry->context->model->weights, std::move(data.features), std::move(data.y),
      {entry->kv.offset, entry->context->resident_bytes}, entry->workspace);
  encodings_.push_back({next_encoding_++, entry->work.get()});
  SetState(entry, State::kEncoding);
}

void ContextCache::EndEncoding(Entry* entry) {
  const auto place =
      std::find_if(encodings_.begin(), encodings_.end(),
                   [&](const Encoding& encoding) { return encoding.work == entry->work.get(); });
  ended_encodings_.push_back(place->id);
  encodings_.erase(place);
  entry->work.reset();
  ReleaseWorkspace(entry);
}

void ContextCache::ReleaseWorkspace(Entry* entry) {
  if (entry->workspace.bytes == 0) return;
  backend_->ReleaseEncode(entry->workspace);
  workspaces_.Free(std::exchange(entry->workspace, PoolRange()));
}

void ContextCache::AddPin(Entry* entry) {
  if (entry->pins++ == 0 && entry->state == State::kResident) lru_.erase(entry->lru_place);
}

void ContextCache::RemovePin(Entry* entry) {
  Require(entry->pins > 0, "a pin that is removed was added");
  if (--entry->pins > 0) return;
  if (entry->context->deleted || entry->state == State::kWaiting ||
      entry->state == State::kFailed) {
    Drop(entry);
  } else if (entry->state == State::kResident) {
    entry->lru_place = lru_.insert(lru_.end(), entry);
  }
}

void ContextCache::Evict(Entry* entry) {
  metrics_->Eviction();
  Drop(entry);
}

// Forgets the entry and gives back what it holds. REQUIRES: no pins.
void ContextCache::Drop(Entry* entry) {
  Require(entry->pins == 0, "an entry that is dropped has no pins");
  const auto indexed = index_.find(entry->context.get());
  if (indexed != index_.end() && indexed->second == entry) index_.erase(indexed);
  if (entry->state == State::kResident) {
    // RemovePin drops a deleted entry before it is in lru_ again.
    const auto place = std::find(lru_.begin(), lru_.end(), entry);
    if (place != lru_.end()) lru_.erase(place);
    --resident_contexts_;
  }
  if (entry->state == State::kEncoding) EndEncoding(entry);
  const bool has_range = entry->state == State::kReading || entry->state == State::kEncoding ||
                         entry->state == State::kResident;
  entry->resident.reset();
  ReleaseWorkspace(entry);  // of one that is still being read
  if (has_range) {
    backend_->ReleaseContext(entry->kv);
    allocator_.Free(entry->kv);
  }
  // A failed entry may have a successor, whose state it is then.
  if (entry->state != State::kFailed) entry->context->state = ContextState::kEvicted;
  entries_.erase(entry->self);
  if (has_range) ReportResidency();
}

void ContextCache::SetState(Entry* entry, State state) {
  entry->state = state;
  switch (state) {
    case State::kWaiting:
    case State::kFailed:
      entry->context->state = ContextState::kEvicted;
      return;
    case State::kReading:
    case State::kEncoding:
      entry->context->state = ContextState::kEncoding;
      return;
    case State::kResident:
      entry->context->state = ContextState::kResident;
      return;
  }
}

void ContextCache::ReportResidency() {
  metrics_->ResidentContexts(resident_contexts_, bytes_in_use());
}

}  // namespace chorale
