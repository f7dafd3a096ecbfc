// Invariants:
//   1. index_ holds the entries that Acquire may find: all but failed and deleted ones.
//   2. entry->kv is a range of allocator_ exactly in the states that HasKv names; entry->workspace
//      is one of workspaces_ in reading and encoding, unless encoding needs none; entry->host is
//      one of host_ exactly while entry->saved is not null (saving, saved, restoring, or waiting
//      again), and while its file is read into it.
//   3. An entry is in lru_ if and only if it is resident and has no pins, and in saved_lru_ if and
//      only if it is saved, which it is only without pins.
//   4. jobs_ holds exactly the entries that have work (encoding, saving or restoring) and the copy
//      of write_.
//   5. An entry without pins is not waiting, loading or failed, and its context is not gone.
//      (Reading, encoding and restoring continue after the last caller gave up, so that a client
//      whose deadline is shorter than an encoding succeeds on a later try.)
//   6. A resident entry that stays is in no list of least recently used ones.
#include "engine/context/context_cache.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error_details.h"
#include "base/integer_math.h"
#include "base/names.h"
#include "base/require.h"
#include "base/status_macros.h"
#include "engine/backend/flop_model.h"
#include "engine/context/context_cache_entry.h"

namespace chorale {

static int64_t SumOf(const std::vector<PoolRange>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), int64_t{0},
                         [](int64_t sum, const PoolRange& range) { return sum + range.bytes; });
}

// Whether `bytes` would fit between the ranges of a pool that stay.
static bool FitsBetween(std::vector<PoolRange> staying, int64_t bytes, const RangeAllocator& pool) {
  if (SumOf(staying) + pool.RoundUp(bytes) > pool.limit()) return false;
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

void ContextCache::Pin::StayResident() {
  Require(entry_->state == State::kResident, "a context that stays resident is resident");
  entry_->stays = true;
}

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
  const std::unique_ptr<ContextData> data = std::move(context->data);
  if (context->deleted) {
    return absl::NotFoundError(absl::StrCat("context '", context->record.name, "' was deleted"));
  }
  if (context->model->removed) {
    return ModelNotServed(context->record.name, context->model->info.name);
  }
  const int64_t bytes = allocator_.RoundUp(context->resident_bytes);
  if (max_tenant_bytes > 0 && bytes > max_tenant_bytes) {
    return QuotaExceeded(
        "max_resident_mib",
        absl::StrCat("context ", QuoteName(context->record.name), " needs ", bytes,
                     " bytes in memory; the tenant's quota is ", max_tenant_bytes));
  }
  RETURN_IF_ERROR(CheckFits(*context));
  const auto found = index_.find(context.get());
  if (found != index_.end()) {
    found->second->max_tenant_bytes = max_tenant_bytes;
    CountLookup(*found->second);
    return Pin(this, found->second);
  }
  entries_.emplace_back();
  Entry* entry = &entries_.back();
  entry->self = std::prev(entries_.end());
  entry->context = context;
  entry->max_tenant_bytes = max_tenant_bytes;
  entry->has_file = has_file_ && has_file_(*context);
  index_.emplace(context.get(), entry);
  SetState(entry, State::kWaiting);
  CountLookup(*entry);
  Pin pin(this, entry);
  PlaceWaiting(now);  // earlier ones come first
  if (entry->state == State::kReading && data != nullptr) {
    StartEncoding(entry, *std::move(data));
  }
  return pin;
}

void ContextCache::LimitPool(int64_t bytes) {
  allocator_.SetLimit(bytes);
  for (Entry* const victim : EvictionOrder("", 0)) {
    if (allocator_.in_use() <= allocator_.limit()) break;
    Evict(victim);
  }
  UnplaceLatest();
  for (Entry& entry : entries_) {
    if (entry.state != State::kWaiting) continue;
    absl::Status fits = CheckFits(*entry.context);
    if (!fits.ok()) Fail(&entry, std::move(fits));
  }
}

// An encoding fills its range as it proceeds: as many as are beyond the limit end, the latest
// first, and wait again.
void ContextCache::UnplaceLatest() {
  for (auto place = entries_.end(); place != entries_.begin();) {
    if (allocator_.in_use() <= allocator_.limit()) return;
    Entry* const entry = &*--place;
    if (entry->state != State::kReading && entry->state != State::kEncoding) continue;
    if (entry->pins == 0) {
      ++place;
      Drop(entry);
      continue;
    }
    if (entry->work != nullptr) EndJob(entry);
    entry->read_wanted = false;
    ReleaseWorkspace(entry);
    ReleaseKv(entry);
    SetState(entry, State::kWaiting);
  }
}

absl::Status ContextCache::CheckFits(const RegisteredContext& context) const {
  const int64_t bytes = allocator_.RoundUp(context.resident_bytes);
  if (bytes <= allocator_.limit()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("context ", QuoteName(context.record.name), " needs ", bytes,
                   " bytes in memory, but the server's memory limit leaves ", allocator_.limit(),
                   " bytes for contexts at the moment"));
}

// All requests that wait for the entry get the error; the next Acquire tries again.
void ContextCache::Fail(Entry* entry, absl::Status why) {
  index_.erase(entry->context.get());
  ReleaseWorkspace(entry);
  if (entry->HasKv()) ReleaseKv(entry);
  entry->status = std::move(why);
  SetState(entry, State::kFailed);
}

// A pool may hold a hundred thousand small contexts: what every tick calls looks at all of them
// only if some wait.
void ContextCache::PlaceWaiting(absl::Time now) {
  if (Count(State::kWaiting) == 0) return;
  bool all_placed = true;
  for (Entry& entry : entries_) {
    if (entry.state == State::kWaiting) all_placed &= Place(&entry, now);
  }
  if (all_placed || !WritesPinned() || now < write_->began + kWriteGrace) return;
  GiveUpWrite();
  PlaceWaiting(now);
}

absl::Time ContextCache::NextPlacing() const {
  return Count(State::kWaiting) > 0 && WritesPinned() ? write_->began + kWriteGrace
                                                      : absl::InfiniteFuture();
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

void ContextCache::Charge(uint64_t job, double flops) {
  const auto charged =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& each) { return each.id == job; });
  if (charged != jobs_.end()) charged->flops_done += flops;
}

double ContextCache::EncodeFlopsLeft() const {
  const auto total = [](const RegisteredContext& context) {
    return EncodeFlops(context.model->info.config, context.record.rows);
  };
  double flops = 0;
  if (Count(State::kReading) + Count(State::kWaiting) > 0) {
    for (const Entry& entry : entries_) {
      const bool to_come =
          entry.state == State::kReading ||
          (entry.state == State::kWaiting && entry.saved == nullptr && !entry.has_file);
      if (to_come) flops += total(*entry.context);
    }
  }
  for (const Job& job : jobs_) {
    if (job.work->kind() != WorkKind::kEncode) continue;
    flops += std::max(0.0, total(*job.context) - job.flops_done);
  }
  return flops;
}

void ContextCache::CollectJobs(absl::Time now) {
  std::vector<Entry*> done;
  for (const Job& job : jobs_) {
    if (job.entry != nullptr && job.work->done()) done.push_back(job.entry);
  }
  for (Entry* const entry : done) CollectJob(entry, now);
  CollectWriteCopy(now);
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
    entry->unwritten = has_file_ != nullptr;
    metrics_->EncodeTime(now - entry->placed);
    metrics_->EncodedRows(entry->context->record.model, entry->context->record.rows);
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
  if (entry->unwritten) QueueWrite(*entry);
}

bool ContextCache::Uses(const ServedModel& model) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.context->model.get() == &model; });
}

void ContextCache::PurgeDeleted() {
  if (WritesPinned() && write_->pin.entry_->context->gone()) GiveUpWrite();
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry* entry = &*it++;
    if (!entry->context->gone()) continue;
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
  if (!restore && !entry->has_file && !FindWorkspace(entry)) return false;
  const std::optional<PoolRange> range = MakeTenantRoom(*entry) ? FindRoom(context) : std::nullopt;
  if (!range.has_value()) {
    ReleaseWorkspace(entry);
    return false;
  }
  // Only now: it may drop saved contexts.
  const bool load =
      !restore && entry->has_file && (host_reaches_contexts_ || FindLoadingRoom(entry));
  if (!restore && !load && entry->has_file && !FindWorkspace(entry)) {
    allocator_.Free(*range);
    return false;
  }
  entry->kv = *range;
  entry->placed = now;
  if (restore) {
    StartCopy(entry, CopyDirection::kToDevice);
  } else if (load) {
    StartLoading(entry);
  } else {
    entry->has_file = false;  // not tried for want of room, and no longer needed
    entry->read_wanted = true;
    SetState(entry, State::kReading);
  }
  return true;
}

// Whether the entry fits into what its tenant may take of the context pool. Others of the tenant
// are evicted for that, if it helps; as in FindRoom, one that is saved frees its range only when
// the copy is done, and a later call may succeed.
bool ContextCache::MakeTenantRoom(const Entry& entry) {
  if (entry.max_tenant_bytes == 0) return true;
  const std::string& tenant = entry.context->record.tenant;
  const int64_t room = entry.max_tenant_bytes - allocator_.RoundUp(entry.context->resident_bytes);
  int64_t staying = 0;
  int64_t held = 0;
  for (const Entry& other : entries_) {
    if (!other.HasKv() || other.context->record.tenant != tenant) continue;
    const bool goes = other.state == State::kSaving || other.lru == &lru_;
    held += other.kv.bytes;
    if (!goes) staying += other.kv.bytes;
  }
  if (staying > room) return false;
  for (auto place = lru_.begin(); place != lru_.end() && held > room && !Saving();) {
    Entry* const victim = *place++;
    if (victim->context->record.tenant != tenant) continue;
    const int64_t bytes = victim->kv.bytes;
    Evict(victim);
    if (!Saving()) held -= bytes;
  }
  return held <= room;
}

bool ContextCache::FindWorkspace(Entry* entry) {
  const RegisteredContext& context = *entry->context;
  const int64_t bytes =
      backend_->EncodeBytes(context.model->weights->config(), context.record.rows);
  if (bytes == 0) return true;
  const std::optional<PoolRange> range = workspaces_.Allocate(bytes);
  if (range.has_value()) entry->workspace = *range;
  return range.has_value();
}

// A range of the context pool, for which others may be evicted. An entry that is saved on eviction
// frees its range only when the copy is done; until then nothing else is evicted, and a later call
// may succeed.
std::optional<PoolRange> ContextCache::FindRoom(const RegisteredContext& context) {
  const int64_t bytes = context.resident_bytes;
  std::optional<PoolRange> range = allocator_.Allocate(bytes);
  if (range.has_value()) return range;
  const std::vector<Entry*> victims = EvictionOrder(context.record.tenant, bytes);
  if (!EvictionCanFit(victims, bytes)) return std::nullopt;
  for (Entry* const victim : victims) {
    if (range.has_value() || Saving()) break;
    Evict(victim);
    range = allocator_.Allocate(bytes);
  }
  return range;
}

// The unpinned entries that may be evicted, in this order, for `bytes` more of a tenant. Each group
// has the least recently used first:
//   1. those of tenants that hold more than an equal part of the pool, until they do not;
//   2. the tenant's own;
//   3. all, if the tenant holds nothing else: for a context that is larger than an equal part.
// So what is within an equal part is safe from tenants that ask for more than theirs, but for one
// context at a time; and nobody waits for ever for room that nobody uses.
std::vector<ContextCache::Entry*> ContextCache::EvictionOrder(const std::string& tenant,
                                                              int64_t bytes) const {
  absl::flat_hash_map<absl::string_view, int64_t> held = {{tenant, allocator_.RoundUp(bytes)}};
  int64_t pinned_own = 0;
  for (const Entry& entry : entries_) {
    if (!entry.HasKv() || entry.state == State::kSaving) continue;
    const std::string& owner = entry.context->record.tenant;
    held[owner] += entry.kv.bytes;
    if (owner == tenant && entry.lru != &lru_) pinned_own += entry.kv.bytes;
  }
  const int64_t equal_part = allocator_.limit() / static_cast<int64_t>(held.size());
  std::vector<Entry*> order;
  std::vector<Entry*> own;
  std::vector<Entry*> rest;
  for (Entry* const entry : lru_) {
    const std::string& owner = entry->context->record.tenant;
    int64_t& of_owner = held[owner];
    if (of_owner > equal_part) {
      of_owner -= entry->kv.bytes;
      order.push_back(entry);
    } else {
      (owner == tenant ? own : rest).push_back(entry);
    }
  }
  order.insert(order.end(), own.begin(), own.end());
  if (pinned_own == 0) order.insert(order.end(), rest.begin(), rest.end());
  return order;
}

// A range of the host pool, for which the least recently used saved entries are dropped.
std::optional<PoolRange> ContextCache::FindHostRoom(int64_t bytes) {
  if (bytes > host_.capacity()) return std::nullopt;
  std::optional<PoolRange> range = host_.Allocate(bytes);
  if (range.has_value()) return range;
  std::vector<PoolRange> staying;
  for (const Entry& entry : entries_) {
    if (entry.host.bytes > 0 && entry.lru != &saved_lru_) staying.push_back(entry.host);
  }
  if (write_.has_value() && write_->host.bytes > 0) staying.push_back(write_->host);
  if (!FitsBetween(std::move(staying), bytes, host_)) return std::nullopt;
  while (!range.has_value() && !saved_lru_.empty()) {
    metrics_->Eviction(EvictionReason::kHostPoolFull);
    Drop(saved_lru_.front());
    range = host_.Allocate(bytes);
  }
  return range;
}

// Whether `bytes` would fit if all of these were evicted. If not, nothing is evicted.
bool ContextCache::EvictionCanFit(const std::vector<Entry*>& victims, int64_t bytes) const {
  const absl::flat_hash_set<const Entry*> going(victims.begin(), victims.end());
  std::vector<PoolRange> staying;
  for (const Entry& entry : entries_) {
    const bool goes = entry.state == State::kSaving || going.contains(&entry);
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
  jobs_.push_back({next_job_++, entry->work.get(), entry->context.get(), entry});
  SetState(entry, state);
}

void ContextCache::ForgetJob(const Work* work) {
  const auto place =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.work == work; });
  ended_jobs_.push_back(place->id);
  jobs_.erase(place);
}

void ContextCache::EndJob(Entry* entry) {
  ForgetJob(entry->work.get());
  entry->work.reset();
  entry->encode = nullptr;
  ReleaseWorkspace(entry);
}

void ContextCache::ReleaseKv(Entry* entry) {
  backend_->ReleaseContext(entry->kv);
  allocator_.Free(entry->kv);
}

void ContextCache::ReleaseHost(Entry* entry) {
  entry->saved.reset();
  FreeHost(&entry->host);
}

void ContextCache::FreeHost(PoolRange* range) {
  if (range->bytes > 0) host_.Free(std::exchange(*range, PoolRange()));
}

void ContextCache::ReleaseWorkspace(Entry* entry) {
  if (entry->workspace.bytes == 0) return;
  backend_->ReleaseEncode(entry->workspace);
  workspaces_.Free(std::exchange(entry->workspace, PoolRange()));
}

void ContextCache::EnterLru(Entry* entry, std::list<Entry*>* lru) {
  entry->lru = lru;
  entry->lru_place = lru->insert(lru->end(), entry);
  if (lru == &lru_) evictable_bytes_ += entry->kv.bytes;
}

void ContextCache::LeaveLru(Entry* entry) {
  if (entry->lru == nullptr) return;
  if (entry->lru == &lru_) evictable_bytes_ -= entry->kv.bytes;
  std::exchange(entry->lru, nullptr)->erase(entry->lru_place);
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
  if (entry->context->gone() || (waits && unsaved) || entry->state == State::kFailed) {
    Drop(entry);
  } else if (waits) {
    SetState(entry, State::kSaved);
    EnterLru(entry, &saved_lru_);
  } else if (entry->state == State::kResident && !entry->stays) {
    EnterLru(entry, &lru_);
    if (allocator_.in_use() > allocator_.limit()) Evict(entry);
  }
}

// Saves the entry if the host pool has room, else drops it.
void ContextCache::Evict(Entry* entry) {
  const std::optional<PoolRange> host = FindHostRoom(entry->context->resident_bytes);
  metrics_->Eviction(host.has_value() ? EvictionReason::kSavedToHost : EvictionReason::kDropped);
  if (!host.has_value()) {
    Drop(entry);
    return;
  }
  LeaveLru(entry);
  entry->host = *host;
  entry->saved = std::move(entry->resident);
  StartCopy(entry, CopyDirection::kToHost);
}

// Removes the entry and frees what it holds. REQUIRES: no pins.
void ContextCache::Drop(Entry* entry) {
  Require(entry->pins == 0, "an entry that is dropped has no pins");
  const auto indexed = index_.find(entry->context.get());
  if (indexed != index_.end() && indexed->second == entry) index_.erase(indexed);
  LeaveLru(entry);
  if (entry->work != nullptr) EndJob(entry);
  --by_state_[static_cast<size_t>(entry->state)];
  const bool had_kv = entry->HasKv();
  if (had_kv && entry->context->model->removed) metrics_->Eviction(EvictionReason::kModelUnloaded);
  entry->resident.reset();
  ReleaseWorkspace(entry);  // of one that is still being read
  ReleaseHost(entry);
  if (had_kv) ReleaseKv(entry);
  // A failed entry may have a successor that now owns this state.
  if (entry->state != State::kFailed) entry->context->state = ContextState::kEvicted;
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
      entry->context->state = ContextState::kEvicted;
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

int64_t ContextCache::EncodingBytes() const {
  int64_t bytes = 0;
  for (const Job& job : jobs_) {
    if (job.work->kind() != WorkKind::kEncode) continue;
    const ContextRecord& record = job.context->record;
    const int64_t token_bytes = job.context->model->info.config.d_model * sizeof(float);
    bytes += record.dataset_bytes + 2 * record.rows * token_bytes;
  }
  return bytes;
}

// Of an entry as a request finds it, or as it was made for the request.
void ContextCache::CountLookup(const Entry& entry) {
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
