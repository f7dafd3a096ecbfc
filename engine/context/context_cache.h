// Residency of contexts: which of them have their keys and values in the backend's context pool.
#ifndef CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_H_
#define CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/backend/backend.h"
#include "engine/context/registered_context.h"
#include "engine/memory/range_allocator.h"
#include "engine/metrics_sink.h"

namespace chorale {

// A cache over the context store. The first Acquire of a context makes its entry, which then goes
// through these states:
//
//            Acquire            room found           OnData            last step
//   (none) ----------> waiting ------------> reading ------> encoding ----------> resident
//      ^                  |                     |                |                    |
//      +------------------+---------------------+----------------+--------------------+
//        no pins left         data not readable      deleted        evicted, or deleted
//
// If the backend has host memory for contexts, eviction copies the context there while there is
// room, so that it comes back without being read and encoded again:
//
//             evicted         last step       Acquire         room found          last step
//   resident --------> saving ---------> saved -------> waiting ---------> restoring ---> resident
//                         |              ^   |           ^  |
//                         |              |   +-> (none)  |  | no pins left
//                         |              +---------------|--+
//                         +------------------------------+
//                           last step, after an Acquire
//
// A resident entry is evicted only to make room for another and only while it has no pins, the
// least recently used one first; a saved one is dropped likewise. A deleted entry is freed with its
// last pin.
//
// Thread contract: engine thread only.
class ContextCache {
  struct Entry;

 public:
  // Keeps an entry from being evicted. Movable; every pin is gone before the cache is.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept { *this = std::move(other); }
    Pin& operator=(Pin&& other) noexcept;
    ~Pin() { Reset(); }

    void Reset();
    explicit operator bool() const { return entry_ != nullptr; }

    // Null until the context is resident.
    std::shared_ptr<const ResidentContext> resident() const;
    // Why the context will not become resident; Ok while it may.
    const absl::Status& status() const;
    bool waits_for_room() const;

   private:
    friend class ContextCache;
    Pin(ContextCache* cache, Entry* entry);

    ContextCache* cache_ = nullptr;
    Entry* entry_ = nullptr;
  };

  // A context that is being encoded, saved or restored.
  struct Job {
    uint64_t id = 0;  // unique among the jobs of this cache
    Work* work = nullptr;
  };

  using ContextPointer = std::shared_ptr<const RegisteredContext>;

  // Both outlive the cache.
  ContextCache(Backend* backend, MetricsSink* metrics);
  ~ContextCache();

  // Pins a context. Takes the data that came with it, if any: they are used when there is room at
  // once, else dropped and asked for later (TakeReads), so that waiting contexts take no memory.
  // NotFound when the context was deleted.
  absl::StatusOr<Pin> Acquire(const ContextPointer& context, absl::Time now);

  // Finds room for waiting contexts in order of arrival. One that does not fit does not hold back
  // a smaller one.
  void PlaceWaiting(absl::Time now);
  // Returns the contexts that have room and whose data must be read, each exactly once.
  std::vector<ContextPointer> TakeReads();
  // The answer to one of TakeReads.
  void OnData(const ContextPointer& context, absl::StatusOr<ContextData> data);

  // The jobs in progress. The caller advances those that are not done.
  const std::vector<Job>& jobs() const { return jobs_; }
  // Moves the entries of finished jobs to their next state.
  void CollectJobs(absl::Time now);
  // Returns the ids of the jobs that finished or were dropped, each exactly once.
  std::vector<uint64_t> TakeEndedJobs() { return std::exchange(ended_jobs_, {}); }

  // Drops the entries of deleted contexts that have no pins.
  void PurgeDeleted();
  // Drops everything. REQUIRES: no pins.
  void Clear();

  int64_t resident_contexts() const { return resident_contexts_; }
  int64_t bytes_in_use() const { return allocator_.in_use(); }  // of the context pool

 private:
  enum class State {
    kWaiting,
    kReading,
    kEncoding,
    kResident,
    kSaving,
    kSaved,
    kRestoring,
    kFailed,
  };

  using EntryList = std::list<Entry>;

  bool Place(Entry* entry, absl::Time now);
  std::optional<PoolRange> FindRoom(int64_t bytes);
  bool EvictionCanFit(int64_t bytes) const;
  bool Saving() const;
  std::optional<PoolRange> FindHostRoom(int64_t bytes);
  void StartEncoding(Entry* entry, ContextData data);
  void StartCopy(Entry* entry, CopyDirection direction);
  void StartJob(Entry* entry, State state, std::unique_ptr<Work> work);
  void EndJob(Entry* entry);
  void CollectJob(Entry* entry, absl::Time now);
  void ReleaseKv(Entry* entry);
  void ReleaseHost(Entry* entry);
  void ReleaseWorkspace(Entry* entry);
  void EnterLru(Entry* entry, std::list<Entry*>* lru);
  static void LeaveLru(Entry* entry);
  void AddPin(Entry* entry);
  void RemovePin(Entry* entry);
  void Evict(Entry* entry);
  void Drop(Entry* entry);
  void SetState(Entry* entry, State state);
  void ReportResidency();

  Backend* const backend_;
  MetricsSink* const metrics_;
  RangeAllocator allocator_;   // of the context pool
  RangeAllocator workspaces_;  // of the encode pool
  RangeAllocator host_;        // of the host pool
  EntryList entries_;          // in order of arrival
  std::unordered_map<const RegisteredContext*, Entry*> index_;
  std::list<Entry*> lru_;        // resident and unpinned, the least recently used one first
  std::list<Entry*> saved_lru_;  // saved, the least recently used one first
  std::vector<Job> jobs_;
  std::vector<uint64_t> ended_jobs_;
  uint64_t next_job_ = 1;
  int64_t resident_contexts_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_H_
