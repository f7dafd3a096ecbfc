// Invariants:
//   1. index_ holds the entries that Acquire may find: all but failed and deleted ones.
//   2. entry->kv is a range of allocator_ exactly in the states that HasKv names; entry->workspace
//      is one of workspaces_ in reading and encoding, unless encoding needs none; entry->host is
//      one of host_ exactly while entry->saved is not null: saving, saved, restoring, or waiting
//      again.
//   3. An entry is in lru_ if and only if it is resident and has no pins, and in saved_lru_ if and
//      only if it is saved, which it is only without pins.
//   4. jobs_ holds exactly the entries that have work: encoding, saving or restoring.
//   5. An entry without pins is not waiting, failed or deleted. (Reading, encoding and restoring
//      continue after the last caller gave up, so that a client whose deadline is shorter than an
//      encoding succeeds on a later try.)
#include "engine/context/context_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/integer_math.h"
#include "base/require.h"

namespace chorale {

struct ContextCache::Entry {
  ContextPointer context;
  State state = State::kWaiting;
  PoolRange kv;
  PoolRange workspace;
  PoolRange host;
  std::unique_ptr<Work> work;                       // while encoding, saving or restoring
  EncodeWork* encode = nullptr;                     // the same, while encoding
  std::shared_ptr<const ResidentContext> resident;  // while resident
  std::shared_ptr<const ResidentContext> saved;     // as `resident`, but for its range
  absl::Status status;                              // when failed
  absl::Time placed;                                // when it got its ranges
  int64_t pins = 0;
  bool read_wanted = false;  // reading, and not yet returned by TakeReads
  std::list<Entry>::iterator self;
  std::list<Entry*>* lru = nullptr;  // the list that it is in, or null
  std::list<Entry*>::iterator lru_place;

  bool HasKv() const {
    return state != State::kWaiting && state != State::kSaved && state != State::kFailed;
  }
  // The size that the backend asked for: the pool rounds up to its alignment.
  PoolRange used_kv() const { return {kv.offset, context->resident_bytes}; }
};

// Whether `bytes` would fit between the ranges of a pool that stay.
static bool FitsBetween(std::vector<PoolRange> staying, int64_t bytes, const RangeAllocator& pool) {
  std::sort(staying.begin(), staying.end(),
            [](const PoolRange& a, const PoolRange& b) { return a.offset < b.offset; });
  const int64_t needed = pool.RoundUp(bytes);
  int64_t end = 0;
  for (const PoolRange& range : staying) {
    if (range.offset - end >= needed) return true;
    end = range.offset + range.bytes;
  }
  return pool.capacity() - end >= needed;
}

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

bool ContextCache::Pin::waits_for_room() const {
  return entry_->state == State::kWaiting || entry_->state == State::kSaving;
}

// ---- Cache ---------------------------------------------------------------------------------

ContextCache::ContextCache(Backend* backend, MetricsSink* metrics)
    : backend_(backend),
      metrics_(metrics),
      allocator_(backend->context_pool_bytes()),
      workspaces_(backend->encode_pool_bytes()),
      host_(backend->host_context_pool_bytes()) {
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
  PlaceWaiting(now);  // earlier ones come first
  if (entry->state == State::kReading && data != nullptr) {
    StartEncoding(entry, *std::move(data));
  }
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
  // All waiting requests get the error; the next Acquire tries again.
  index_.erase(context.get());
  ReleaseWorkspace(entry);
  ReleaseKv(entry);
  entry->status = data.status();
  SetState(entry, State::kFailed);
  ReportResidency();
  if (entry->pins == 0) Drop(entry);
}

void ContextCache::CollectJobs(absl::Time now) {
  bool any = false;
  for (Entry& entry : entries_) {
    if (entry.work == nullptr || !entry.work->done()) continue;
    any = true;
    CollectJob(&entry, now);
  }
  if (any) ReportResidency();
}

void ContextCache::CollectJob(Entry* entry, absl::Time now) {
  if (entry->state == State::kSaving) {
    EndJob(entry);
    ReleaseKv(entry);
    SetState(entry, entry->pins > 0 ? State::kWaiting : State::kSaved);
    if (entry->pins == 0) EnterLru(entry, &saved_lru_);
    return;
  }
  if (entry->state == State::kEncoding) {
    entry->resident = std::make_shared<const ResidentContext>(entry->encode->TakeContext());
    metrics_->EncodeTime(now - entry->placed);
  } else {
    ResidentContext restored = *entry->saved;
    restored.kv = entry->used_kv();
    entry->resident = std::make_shared<const ResidentContext>(std::move(restored));
    ReleaseHost(entry);
    metrics_->RestoreTime(now - entry->placed);
  }
  EndJob(entry);
  SetState(entry, State::kResident);
  if (entry->pins == 0) EnterLru(entry, &lru_);
}

void ContextCache::PurgeDeleted() {
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry* entry = &*it++;
    if (!entry->context->deleted) continue;
    index_.erase(entry->context.get());
    if (entry->pins == 0) Drop(entry);
  }
}

void ContextCache::Clear() {
  while (!entries_.empty()) {
    Require(entries_.front().pins == 0, "the cache is cleared when nothing is pinned");
    Drop(&entries_.front());
  }
}

// Gives the entry its ranges, and evicts others if that helps. Nothing is evicted for workspace:
// encodings release theirs when they finish.
bool ContextCache::Place(Entry* entry, absl::Time now) {
  const RegisteredContext& context = *entry->context;
  const bool restore = entry->saved != nullptr;
  const int64_t workspace =
      restore ? 0 : backend_->EncodeBytes(context.model->weights->config(), context.record.rows);
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
  if (restore) {
    StartCopy(entry, CopyDirection::kToDevice);
  } else {
    entry->read_wanted = true;
    SetState(entry, State::kReading);
  }
  ReportResidency();
  return true;
}

// A range of the context pool, for which others may be evicted. An entry that is saved on eviction
// frees its range only when the copy is done; until then nothing else is evicted, and a later call
// may succeed.
std::optional<PoolRange> ContextCache::FindRoom(int64_t bytes) {
  std::optional<PoolRange> range = allocator_.Allocate(bytes);
  if (range.has_value() || !EvictionCanFit(bytes)) return range;
  while (!range.has_value() && !Saving()) {
    Evict(lru_.front());
    range = allocator_.Allocate(bytes);
  }
  return range;
}

bool ContextCache::Saving() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.state == State::kSaving; });
}

// A range of the host pool, for which the least recently used saved entries are dropped.
std::optional<PoolRange> ContextCache::FindHostRoom(int64_t bytes) {
  std::optional<PoolRange> range = host_.Allocate(bytes);
  if (range.has_value()) return range;
  std::vector<PoolRange> staying;
  for (const Entry& entry : entries_) {
    if (entry.saved != nullptr && entry.lru != &saved_lru_) staying.push_back(entry.host);
  }
  if (!FitsBetween(std::move(staying), bytes, host_)) return std::nullopt;
  while (!range.has_value() && !saved_lru_.empty()) {
    Drop(saved_lru_.front());
    range = host_.Allocate(bytes);
  }
  return range;
}

// Whether `bytes` would fit if everything unpinned were evicted. If not, nothing is evicted.
bool ContextCache::EvictionCanFit(int64_t bytes) const {
  std::vector<PoolRange> staying;
  for (const Entry& entry : entries_) {
    const bool goes = entry.state == State::kSaving || entry.lru == &lru_;
    if (entry.HasKv() && !goes) staying.push_back(entry.kv);
  }
  return FitsBetween(std::move(staying), bytes, allocator_);
}

void ContextCache::StartEncoding(Entry* entry, ContextData data) {
  entry->read_wanted = false;
  std::unique_ptr<EncodeWork> work =
      backend_->NewEncode(entry->context->model->weights, std::move(data.features),
                          std::move(data.y), entry->used_kv(), entry->workspace);
  entry->encode = work.get();
  StartJob(entry, State::kEncoding, std::move(work));
}

void ContextCache::StartCopy(Entry* entry, CopyDirection direction) {
  const bool saves = direction == CopyDirection::kToHost;
  StartJob(entry, saves ? State::kSaving : State::kRestoring,
           backend_->NewContextCopy(entry->used_kv(), entry->host, direction));
}

void ContextCache::StartJob(Entry* entry, State state, std::unique_ptr<Work> work) {
  entry->work = std::move(work);
  jobs_.push_back({next_job_++, entry->work.get()});
  SetState(entry, state);
}

void ContextCache::EndJob(Entry* entry) {
  const auto place = std::find_if(jobs_.begin(), jobs_.end(),
                                  [&](const Job& job) { return job.work == entry->work.get(); });
  ended_jobs_.push_back(place->id);
  jobs_.erase(place);
  entry->work.reset();
  entry->encode = nullptr;
  ReleaseWorkspace(entry);
}

void ContextCache::ReleaseKv(Entry* entry) {
  backend_->ReleaseContext(entry->kv);
  allocator_.Free(entry->kv);
}

void ContextCache::ReleaseHost(Entry* entry) {
  if (entry->saved == nullptr) return;
  entry->saved.reset();
  host_.Free(entry->host);
}

void ContextCache::ReleaseWorkspace(Entry* entry) {
  if (entry->workspace.bytes == 0) return;
  backend_->ReleaseEncode(entry->workspace);
  workspaces_.Free(std::exchange(entry->workspace, PoolRange()));
}

void ContextCache::EnterLru(Entry* entry, std::list<Entry*>* lru) {
  entry->lru = lru;
  entry->lru_place = lru->insert(lru->end(), entry);
}

void ContextCache::LeaveLru(Entry* entry) {
  if (entry->lru != nullptr) std::exchange(entry->lru, nullptr)->erase(entry->lru_place);
}

void ContextCache::AddPin(Entry* entry) {
  if (entry->pins++ > 0) return;
  LeaveLru(entry);
  // It queues behind earlier requests. A new Acquire does not stop an eviction that is saving its
  // entry: the context that is to have the range could wait forever.
  if (entry->saved != nullptr) entries_.splice(entries_.end(), entries_, entry->self);
  if (entry->state == State::kSaved) SetState(entry, State::kWaiting);
}

void ContextCache::RemovePin(Entry* entry) {
  Require(entry->pins > 0, "a pin that is removed was added");
  if (--entry->pins > 0) return;
  const bool waits = entry->state == State::kWaiting;
  const bool unsaved = entry->saved == nullptr;
  if (entry->context->deleted || (waits && unsaved) || entry->state == State::kFailed) {
    Drop(entry);
  } else if (waits) {
    SetState(entry, State::kSaved);
    EnterLru(entry, &saved_lru_);
  } else if (entry->state == State::kResident) {
    EnterLru(entry, &lru_);
  }
}

// Saves the entry if the host pool has room, else drops it.
void ContextCache::Evict(Entry* entry) {
  metrics_->Eviction();
  const std::optional<PoolRange> host = FindHostRoom(entry->context->resident_bytes);
  if (!host.has_value()) {
    Drop(entry);
    return;
  }
  LeaveLru(entry);
  entry->host = *host;
  entry->saved = std::move(entry->resident);
  StartCopy(entry, CopyDirection::kToHost);
  ReportResidency();
}

// Removes the entry and frees what it holds. REQUIRES: no pins.
void ContextCache::Drop(Entry* entry) {
  Require(entry->pins == 0, "an entry that is dropped has no pins");
  const auto indexed = index_.find(entry->context.get());
  if (indexed != index_.end() && indexed->second == entry) index_.erase(indexed);
  LeaveLru(entry);
  if (entry->work != nullptr) EndJob(entry);
  if (entry->state == State::kResident) --resident_contexts_;
  const bool had_kv = entry->HasKv();
  entry->resident.reset();
  ReleaseWorkspace(entry);  // of one that is still being read
  ReleaseHost(entry);
  if (had_kv) ReleaseKv(entry);
  // A failed entry may have a successor that now owns this state.
  if (entry->state != State::kFailed) entry->context->state = ContextState::kEvicted;
  entries_.erase(entry->self);
  if (had_kv) ReportResidency();
}

void ContextCache::SetState(Entry* entry, State state) {
  if (entry->state == State::kResident) --resident_contexts_;
  entry->state = state;
  switch (state) {
    case State::kWaiting:
    case State::kSaving:
    case State::kSaved:
    case State::kFailed:
      entry->context->state = ContextState::kEvicted;
      return;
    case State::kReading:
    case State::kEncoding:
    case State::kRestoring:
      entry->context->state = ContextState::kEncoding;
      return;
    case State::kResident:
      ++resident_contexts_;
      entry->context->state = ContextState::kResident;
      return;
  }
}

void ContextCache::ReportResidency() {
  metrics_->ResidentContexts(resident_contexts_, bytes_in_use());
}

}  // namespace chorale
