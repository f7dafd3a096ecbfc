// The space of the context cache: ranges of the pools, eviction, and the lists of least recently
// used entries.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error_details.h"
#include "base/fault.h"
#include "base/integer_math.h"
#include "base/names.h"
#include "engine/backend/flop_model.h"
#include "engine/context/context_cache.h"
#include "engine/context/context_cache_entry.h"

namespace chorale {

static int64_t SumOf(const std::vector<PoolRange>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), int64_t{0},
                         [](int64_t sum, const PoolRange& range) { return sum + range.bytes; });
}

// Returns true if `bytes` would fit between the ranges of a pool that stay.
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

// Ends encodings, which fill their ranges as they proceed, until the pool is within its limit. The
// latest encodings end first, and wait for space again if they are pinned.
void ContextCache::UnplaceLatest() {
  std::vector<Entry*> begun;
  for (Entry& entry : entries_) {
    if (entry.state == State::kReading || entry.state == State::kEncoding) begun.push_back(&entry);
  }
  for (auto latest = begun.rbegin(); latest != begun.rend(); ++latest) {
    if (allocator_.in_use() <= allocator_.limit()) return;
    Entry* const entry = *latest;
    if (entry->pins == 0) {
      Drop(entry);
      continue;
    }
    if (entry->work != nullptr) EndJob(entry);
    entry->prefix.Reset();
    entry->read_wanted = false;
    ReleaseWorkspace(entry);
    ReleaseKv(entry);
    SetState(entry, State::kWaiting);
  }
}

absl::Status ContextCache::CheckAcquire(const RegisteredContext& context,
                                        int64_t max_tenant_bytes) const {
  if (context.deleted) {
    return MakeError(ErrorReason::kContextNotFound,
                     absl::StrCat("context '", context.record.name, "' was deleted"));
  }
  if (context.model->removed) {
    return ModelNotServed(context.record.name, context.model->info.name);
  }
  const int64_t bytes = allocator_.RoundUp(context.resident_bytes);
  if (max_tenant_bytes > 0 && bytes > max_tenant_bytes) {
    return QuotaExceeded(
        "max_resident_mib",
        absl::StrCat("context ", QuoteName(context.record.name), " needs ", bytes,
                     " bytes in memory; the tenant's quota is ", max_tenant_bytes));
  }
  return CheckFits(context);
}

absl::Status ContextCache::CheckFits(const RegisteredContext& context) const {
  const int64_t bytes = allocator_.RoundUp(context.resident_bytes);
  if (bytes <= allocator_.limit()) return absl::OkStatus();
  return MakeError(ErrorReason::kContextTooLarge,
                   absl::StrCat("context ", QuoteName(context.record.name), " needs ", bytes,
                                " bytes in memory, but the server's memory limit leaves ",
                                allocator_.limit(), " bytes for contexts at the moment"));
}

// Allocates the ranges of the entry, and evicts other entries if this creates enough space. Nothing
// is evicted for workspace, because encodings release theirs when they finish.
bool ContextCache::Place(Entry* entry, absl::Time now) {
  const bool restore = entry->saved != nullptr;
  if (!restore && !entry->has_file && !FindWorkspace(entry)) return false;
  const std::optional<PoolRange> range = FindRoomFor(entry);
  if (!range.has_value()) {
    ReleaseWorkspace(entry);
    return false;
  }
  // FindLoadingRoom is called last, because it may drop saved contexts.
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
    entry->has_file = false;  // no space to load the file, which is no longer needed
    entry->read_wanted = true;
    SetState(entry, State::kReading);
    if (entry->data != nullptr) StartEncoding(entry, std::move(*entry->data));
  }
  return true;
}

// Finds a range for the entry. If there is none, and no range is about to become free, releases the
// prefix of the entry, and tries again.
std::optional<PoolRange> ContextCache::FindRoomFor(Entry* entry) {
  const auto find = [&] {
    return MakeTenantRoom(*entry) ? FindRoom(*entry->context) : std::nullopt;
  };
  std::optional<PoolRange> range = find();
  if (range.has_value() || !entry->prefix || Saving()) return range;
  entry->prefix.Reset();
  return find();
}

// Returns true if the entry fits into the tenant's limit for the context pool. Evicts other entries
// of the tenant if this creates enough space. As in FindRoom, an entry that is saved frees its
// range only when the copy is complete, so a later call may succeed.
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
      backend_->EncodeBytes(context.model->weights->config(), context.record.shape());
  if (bytes == 0) return true;
  if (FaultAt(FaultPlace::kEncodePool)) return false;
  const std::optional<PoolRange> range = workspaces_.Allocate(bytes);
  if (range.has_value()) entry->workspace = *range;
  return range.has_value();
}

// Allocates a range of the context pool, and evicts other entries for it if necessary. An entry
// that is saved on eviction frees its range only when the copy is complete. Until then nothing else
// is evicted, and a later call may succeed.
std::optional<PoolRange> ContextCache::FindRoom(const RegisteredContext& context) {
  if (FaultAt(FaultPlace::kContextPool)) return std::nullopt;
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

// Returns the unpinned entries that may be evicted, in this order, for `bytes` more of a tenant. In
// each group, the least recently used entry comes first:
//   1. entries of tenants that hold more than an equal part of the pool, until they no longer do
//   2. entries of the tenant itself
//   3. all other entries, if none of the tenant's other contexts is pinned or being made resident:
//      for a context that is larger than an equal part
// So tenants that request more than an equal part cannot evict the contexts of a tenant within its
// equal part, except for one context at a time. No tenant waits forever for unused space.
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

// Allocates a range of the host pool, and drops the least recently used saved entries for it if
// necessary.
std::optional<PoolRange> ContextCache::FindHostRoom(int64_t bytes) {
  if (bytes > host_.capacity() || FaultAt(FaultPlace::kHostContextPool)) return std::nullopt;
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

// Returns true if `bytes` would fit if all victims were evicted. Otherwise nothing is evicted.
bool ContextCache::EvictionCanFit(const std::vector<Entry*>& victims, int64_t bytes) const {
  const absl::flat_hash_set<const Entry*> going(victims.begin(), victims.end());
  std::vector<PoolRange> staying;
  for (const Entry& entry : entries_) {
    const bool goes = entry.state == State::kSaving || going.contains(&entry);
    if (entry.HasKv() && !goes) staying.push_back(entry.kv);
  }
  return FitsBetween(std::move(staying), bytes, allocator_);
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

// Saves the entry if the host pool has space, else drops it.
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

}  // namespace chorale
