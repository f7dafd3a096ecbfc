// Residency of contexts: which of them have their keys and values in the backend's context pool.
#ifndef CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_H_
#define CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/api/metrics_sink.h"
#include "engine/api/stats.h"
#include "engine/backend/backend.h"
#include "engine/context/registered_context.h"
#include "engine/pools/lent_memory.h"
#include "engine/pools/range_allocator.h"

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
// With files (UseFiles), a context that was encoded before is read instead of read and encoded:
//
//            room found           OnFileRead               last step of the copy
//   waiting ------------> loading ----------> (restoring) ----------------------> resident
//                            |
//                            +--> waiting    the file could not be used: it is encoded
//
// where the file is read into the host's pool and copied from there, or straight into the context
// pool where the host can reach it. A context that was encoded is written to a file afterwards, one
// at a time, while requests use it: from the context pool, where it is pinned meanwhile, or on a
// GPU from a copy in the host's pool. If a context waits for room and the write takes too long, the
// write is given up, so that a slow disk holds up no request.
//
// A resident entry is evicted only to make room for another and only while it has no pins, the
// least recently used one first of those tenants that hold more than an equal part of the pool (see
// EvictionOrder). A saved one is dropped to make room for another, whosever it is. An entry whose
// context was deleted, or whose model was removed, is freed with its last pin.
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
    // Whether it is copied back from where it was evicted to, or read from a file.
    bool restoring() const;
    // Keeps the context resident until it is deleted or its model removed, also without pins.
    // REQUIRES: it is resident.
    void StayResident();

   private:
    friend class ContextCache;
    Pin(ContextCache* cache, Entry* entry);

    ContextCache* cache_ = nullptr;
    Entry* entry_ = nullptr;
  };

  // A context that is being encoded, saved, restored, or copied to be written to a file.
  struct Job {
    uint64_t id = 0;  // unique among the jobs of this cache
    Work* work = nullptr;
    const RegisteredContext* context = nullptr;
    Entry* entry = nullptr;  // the cache's; null for a copy to be written
    double flops_done = 0;   // see Charge
  };

  using ContextPointer = std::shared_ptr<const RegisteredContext>;

  // A file to be read or written by another thread.
  struct FileTask {
    enum class Kind { kRead, kWrite };
    Kind kind = Kind::kRead;
    ContextPointer context;
    absl::Span<char> read_to;                // that thread's until the answer
    std::shared_ptr<LentMemory> write_from;  // the cache may take it back
    std::string encoder_state;               // to be written
  };

  // How long a write may keep memory that a waiting context needs.
  static constexpr absl::Duration kWriteGrace = absl::Seconds(5);

  // Both outlive the cache.
  ContextCache(Backend* backend, MetricsSink* metrics);
  ~ContextCache();

  // Reads contexts from files, and writes them, from now on. `has_file` must not wait.
  void UseFiles(std::function<bool(const RegisteredContext&)> has_file);

  // Pins a context. Takes the data that came with it, if any: they are used when there is room at
  // once, else dropped and asked for later (TakeReads), so that waiting contexts take no memory.
  // NotFound when the context was deleted, FailedPrecondition when its model was removed.
  //
  // `max_tenant_bytes`: of the context pool, for all contexts of its tenant; 0: no limit. They make
  // room for one another before they take more; base/error_details' QuotaExceeded when this one
  // alone is larger. The limit of the last Acquire of a context counts while it waits for room.
  absl::StatusOr<Pin> Acquire(const ContextPointer& context, absl::Time now,
                              int64_t max_tenant_bytes = 0);

  // From now on contexts take no more than `bytes` of the context pool: the others are evicted,
  // those that are pinned with their last pin; the encodings that came last wait for room again. A
  // context that is larger alone is refused (FailedPrecondition), by Acquire and while it waits for
  // room. REQUIRES: the backend has no host
  // memory for contexts.
  void LimitPool(int64_t bytes);

  // Finds room for waiting contexts in order of arrival. One that does not fit does not hold back
  // a smaller one.
  void PlaceWaiting(absl::Time now);
  // When to call PlaceWaiting again if nothing else happens.
  absl::Time NextPlacing() const;
  // Returns the contexts that have room and whose data must be read, each exactly once.
  std::vector<ContextPointer> TakeReads();
  // The answer to one of TakeReads.
  void OnData(const ContextPointer& context, absl::StatusOr<ContextData> data);

  // Returns the files to be read and written, each exactly once.
  std::vector<FileTask> TakeFileTasks(absl::Time now);
  // The answers: the state of the row encoder, or why the file could not be used.
  void OnFileRead(const ContextPointer& context, absl::StatusOr<std::string> encoder_state,
                  absl::Time now);
  void OnFileWritten();
  // No file is read or written any more. REQUIRES: what TakeFileTasks returned is done with.
  void StopFiles();

  // The jobs in progress. The caller advances those that are not done.
  const std::vector<Job>& jobs() const { return jobs_; }
  // Says that a job's work went on by so many FLOPs.
  void Charge(uint64_t job, double flops);
  // Estimated FLOPs of the encodings that are to come, what is left of those in progress included.
  double EncodeFlopsLeft() const;
  // Moves the entries of finished jobs to their next state.
  void CollectJobs(absl::Time now);
  // Returns the ids of the jobs that finished or were dropped, each exactly once.
  std::vector<uint64_t> TakeEndedJobs() { return std::exchange(ended_jobs_, {}); }

  // Drops the entries of contexts that were deleted, or whose model was removed, and have no pins.
  void PurgeDeleted();
  // Whether an entry needs this model's weights, or may need them.
  bool Uses(const ServedModel& model) const;
  // Drops everything. REQUIRES: no pins.
  void Clear();

  int64_t pool_limit() const { return allocator_.limit(); }
  int64_t resident_contexts() const { return Count(State::kResident); }
  int64_t bytes_in_use() const { return allocator_.in_use(); }  // of the context pool
  int64_t encode_bytes_in_use() const { return workspaces_.in_use(); }
  ContextCounts counts() const;
  // An estimate of what encodings hold beside the pools: rows, and the tokens between two layers.
  int64_t EncodingBytes() const;

 private:
  enum class State {
    kWaiting,
    kReading,
    kLoading,  // from a file
    kEncoding,
    kResident,
    kSaving,
    kSaved,
    kRestoring,
    kFailed,
  };
  static constexpr size_t kStates = static_cast<size_t>(State::kFailed) + 1;

  // The context that is being written to a file: in the context pool, pinned, where the host
  // reaches it; else copied to the host first, and pinned until then.
  struct FileWrite {
    Pin pin;
    PoolRange host;
    std::unique_ptr<Work> copy;        // until it is done
    std::shared_ptr<LentMemory> lent;  // from here on the file is written
    absl::Time began;                  // then
  };

  using EntryList = std::list<Entry>;

  void UnplaceLatest();
  absl::Status CheckFits(const RegisteredContext& context) const;
  void Fail(Entry* entry, absl::Status why);
  bool Place(Entry* entry, absl::Time now);
  bool MakeTenantRoom(const Entry& entry);
  bool FindWorkspace(Entry* entry);
  bool FindLoadingRoom(Entry* entry);
  void StartLoading(Entry* entry);
  absl::Status FinishLoading(Entry* entry, absl::StatusOr<std::string> encoder_state,
                             absl::Time now);
  void QueueWrite(const Entry& entry);
  void StartNextWrite(absl::Time now);
  bool StartWrite(Entry* entry, absl::Time now);  // false: no room in the host's pool
  void HandOutWrite(Entry* entry, char* memory, absl::Time now);
  void CollectWriteCopy(absl::Time now);
  bool WritesPinned() const;
  void GiveUpWrite();
  std::optional<PoolRange> FindRoom(const RegisteredContext& context);
  std::vector<Entry*> EvictionOrder(const std::string& tenant, int64_t bytes) const;
  bool EvictionCanFit(const std::vector<Entry*>& victims, int64_t bytes) const;
  bool Saving() const { return Count(State::kSaving) > 0; }
  std::optional<PoolRange> FindHostRoom(int64_t bytes);
  void StartEncoding(Entry* entry, ContextData data);
  void StartCopy(Entry* entry, CopyDirection direction);
  void StartJob(Entry* entry, State state, std::unique_ptr<Work> work);
  void EndJob(Entry* entry);
  void ForgetJob(const Work* work);
  void CollectJob(Entry* entry, absl::Time now);
  void ReleaseKv(Entry* entry);
  void ReleaseHost(Entry* entry);
  void FreeHost(PoolRange* range);
  void ReleaseWorkspace(Entry* entry);
  void EnterLru(Entry* entry, std::list<Entry*>* lru);
  void LeaveLru(Entry* entry);
  void AddPin(Entry* entry);
  void RemovePin(Entry* entry);
  void Evict(Entry* entry);
  void Drop(Entry* entry);
  void SetState(Entry* entry, State state);
  int64_t Count(State state) const { return by_state_[static_cast<size_t>(state)]; }
  void CountLookup(const Entry& entry);

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
  std::array<int64_t, kStates> by_state_ = {};
  int64_t evictable_bytes_ = 0;  // of the entries in lru_

  std::function<bool(const RegisteredContext&)> has_file_;  // empty: no files
  const bool host_reaches_contexts_;
  std::vector<FileTask> file_tasks_;
  std::deque<ContextPointer> unwritten_;  // encoded and without a file, the oldest first
  std::optional<FileWrite> write_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_H_
