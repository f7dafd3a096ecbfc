// The residency of contexts: tracks which contexts have their keys and values in the context pool
// of the backend.
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

// A cache over the context store. The first Acquire of a context creates an entry, which then
// passes through these states:
//
//            Acquire           space found          OnData            last step
//   (none) ----------> waiting ------------> reading ------> encoding ----------> resident
//      ^                  |                     |                |                    |
//      +------------------+---------------------+----------------+--------------------+
//        no pins left         data not readable      deleted        evicted, or deleted
//
// If the backend has host memory for contexts and this memory has space, an eviction copies the
// context there. The context can then be restored without reading its dataset and encoding it
// again:
//
//             evicted         last step       Acquire         space found         last step
//   resident --------> saving ---------> saved -------> waiting ---------> restoring ---> resident
//                         |              ^   |           ^  |
//                         |              |   +-> (none)  |  | no pins left
//                         |              +---------------|--+
//                         +------------------------------+
//                           last step, after an Acquire
//
// With files (UseFiles), the cache reads the keys and values of a context that was encoded before,
// instead of its dataset:
//
//            space found          OnFileRead               last step of the copy
//   waiting ------------> loading ----------> (restoring) ----------------------> resident
//                            |
//                            +--> waiting    the file could not be used; the context is encoded
//
// If the host can access the context pool, the file is read directly into the context pool.
// Otherwise it is read into the host pool and copied from there.
//
// A context with appended rows whose predecessor is resident (RegisteredContext::predecessors) pins
// it from the first Acquire to the end of the encoding: its keys and values are the prefix of the
// new ones, and are copied. A predecessor that was deleted or replaced meanwhile stays exactly as
// long. If no space can be found while the prefix is pinned, it is released, and the context is
// encoded from its rows: no context waits for space that it occupies itself.
//
// If a longer predecessor is being made resident, and the pool holds both, the context first waits
// for it, without space of its own but with its data, and then pins it as its prefix. So rows can
// be appended faster than all rows are encoded. If the predecessor does not become resident, the
// context does not wait any longer.
//
// After a context was encoded, it is written to a file while requests use it. One file is written
// at a time. If the host can access the context pool, the file is written from there, and the
// context is pinned meanwhile. Otherwise the file is written from a copy in the host pool. If a
// context waits for space and the write takes too long, the cache abandons the write, so that a
// slow disk delays no request.
//
// A resident entry is evicted only if another context needs the space, and only while it has no
// pins. The entries of tenants that hold more than an equal part of the pool are evicted first, the
// least recently used first (see EvictionOrder). A saved entry of any tenant is dropped if another
// entry needs the space. If a context was deleted, its model was removed, or it is a local context,
// its entry is freed with its last pin.
//
// Thread contract: engine thread only.
class ContextCache {
  struct Entry;

 public:
  // Keeps an entry from being evicted. Movable. All pins must be destroyed before the cache.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept { *this = std::move(other); }
    Pin& operator=(Pin&& other) noexcept;
    ~Pin() { Reset(); }

    void Reset();
    explicit operator bool() const { return entry_ != nullptr; }

    // Returns null without a context, and until the context is resident.
    std::shared_ptr<const ResidentContext> resident() const;
    // Returns OK while the context may become resident, else the error that prevents it.
    const absl::Status& status() const;
    bool waits_for_room() const;
    // Returns true while the context is copied back from the host pool, or read from a file.
    bool restoring() const;
    // Returns true while the context waits for a predecessor, or waits for space while a
    // predecessor stays resident for it.
    bool keeps_prefix() const;
    // Returns true if the context may be purged once it has no pins (PurgeDeleted).
    bool purgeable() const;
    // Keeps the context resident, even without pins, until the context is deleted or its model is
    // removed. REQUIRES: it is resident.
    void StayResident();

   private:
    friend class ContextCache;
    Pin(ContextCache* cache, Entry* entry);

    ContextCache* cache_ = nullptr;
    Entry* entry_ = nullptr;
  };

  // A context that is being encoded, saved, restored, or copied in order to be written to a file.
  struct Job {
    uint64_t id = 0;  // unique among the jobs of this cache
    Work* work = nullptr;
    const RegisteredContext* context = nullptr;
    Entry* entry = nullptr;  // null for a copy that is written to a file
    double flops_done = 0;   // see Charge
  };

  using ContextPointer = std::shared_ptr<const RegisteredContext>;

  // A file that another thread reads or writes.
  struct FileTask {
    enum class Kind { kRead, kWrite };
    Kind kind = Kind::kRead;
    ContextPointer context;
    absl::Span<char> read_to;                // owned by the other thread until OnFileRead
    std::shared_ptr<LentMemory> write_from;  // the cache may take it back
    std::string encoder_state;               // for kWrite
  };

  // The time after which a write from the context pool is abandoned if a context waits for space.
  static constexpr absl::Duration kWriteGrace = absl::Seconds(5);

  // Both must outlive the cache.
  ContextCache(Backend* backend, MetricsSink* metrics);
  ~ContextCache();

  // Reads contexts from files, and writes them, from now on. `has_file` must not block.
  void UseFiles(std::function<bool(const RegisteredContext&)> has_file);

  // Pins a context. Takes the data of the context, if it has any. If there is space for the
  // context, the data is used at once. Otherwise it is freed and requested again later (TakeReads),
  // so that waiting contexts use no memory. Returns NotFound if the context was deleted, and
  // FailedPrecondition if its model was removed.
  //
  // `max_tenant_bytes` limits the bytes of the context pool for all contexts of the tenant; 0: no
  // limit. At the limit, the contexts of the tenant evict each other. Returns QuotaExceeded of
  // base/error_details if this context alone exceeds the limit. While a context waits for space,
  // the limit of its last Acquire applies.
  absl::StatusOr<Pin> Acquire(const ContextPointer& context, absl::Time now,
                              int64_t max_tenant_bytes = 0);
  // Acquires a context whose rows were appended to one that is resident, or is being made resident,
  // before this predecessor is purged, with the limit of the predecessor's tenant. Returns an empty
  // pin, and leaves the data to the first request, if there is no such predecessor, if a request
  // has acquired the context already and it waits for none, or if Acquire returns an error.
  Pin AcquireSuccessor(const ContextPointer& context, absl::Time now);
  // Call it when a context that was encoded anew and stays resident has been registered: from now
  // on it is evicted like others unless it `stays`, and written to a file.
  void OnRegistered(const RegisteredContext& context, bool stays);
  // Returns the error that Acquire would return, or OK.
  absl::Status CheckAcquire(const RegisteredContext& context, int64_t max_tenant_bytes) const;

  // Limits contexts to `bytes` of the context pool from now on. Contexts beyond the limit are
  // evicted; pinned contexts are evicted when their last pin is released. The most recent encodings
  // wait for space again. If a context alone exceeds the limit, Acquire returns FailedPrecondition,
  // and a context that waits for space fails with this error. REQUIRES: the backend has no host
  // memory for contexts.
  void LimitPool(int64_t bytes);

  // Allocates space for waiting contexts in order of arrival. A context that does not fit does not
  // delay smaller contexts.
  void PlaceWaiting(absl::Time now);
  // Returns the time at which to call PlaceWaiting again if nothing else happens.
  absl::Time NextPlacing() const;
  // Returns the contexts that have space and whose data must be read, each exactly once.
  std::vector<ContextPointer> TakeReads();
  // Passes the data of a context that TakeReads returned, or the error of reading it.
  void OnData(const ContextPointer& context, absl::StatusOr<ContextData> data);

  // Returns the files that must be read or written, each exactly once.
  std::vector<FileTask> TakeFileTasks(absl::Time now);
  // Report the end of a file task. `encoder_state` is the state of the row encoder, or the reason
  // why the file cannot be used.
  void OnFileRead(const ContextPointer& context, absl::StatusOr<std::string> encoder_state,
                  absl::Time now);
  void OnFileWritten();
  // Stops reading and writing files. REQUIRES: all tasks that TakeFileTasks returned are complete.
  void StopFiles();

  // Returns the jobs in progress. The caller advances the jobs that are not done.
  const std::vector<Job>& jobs() const { return jobs_; }
  // Adds `flops` to the FLOPs that a job has computed.
  void Charge(uint64_t job, double flops);
  // Returns the estimated FLOPs of all future encodings, and of the remaining parts of the
  // encodings in progress.
  double EncodeFlopsLeft() const;
  // Moves the entries of complete jobs to their next state.
  void CollectJobs(absl::Time now);
  // Returns the ids of the jobs that ended or were dropped, each exactly once.
  std::vector<uint64_t> TakeEndedJobs() { return std::exchange(ended_jobs_, {}); }

  // Drops the entries without pins whose context was deleted or whose model was removed, unless the
  // context awaits its successor (RegisteredContext::awaits_successor). Call it after every such
  // event; until then they are kept for AcquireSuccessor.
  void PurgeDeleted();
  // Returns true if an entry needs the weights of this model, or may need them.
  bool Uses(const ServedModel& model) const;
  // Drops all entries. REQUIRES: no pins.
  void Clear();

  int64_t pool_limit() const { return allocator_.limit(); }
  int64_t resident_contexts() const { return Count(State::kResident); }
  int64_t bytes_in_use() const { return allocator_.in_use(); }  // of the context pool
  int64_t encode_bytes_in_use() const { return workspaces_.in_use(); }
  ContextCounts counts() const;
  // Returns an estimate of the bytes that encodings hold outside the pools: rows, and the tokens
  // between two layers.
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

  // The context that is being written to a file. If the host can access the context pool, the
  // context is pinned until the file is written. Otherwise it is first copied to the host pool, and
  // pinned until the copy is complete.
  struct FileWrite {
    Pin pin;
    PoolRange host;
    std::unique_ptr<Work> copy;        // null once the copy is complete
    std::shared_ptr<LentMemory> lent;  // set when the write of the file begins
    absl::Time began;                  // time at which the write of the file began
  };

  using EntryList = std::list<Entry>;

  Entry* Enter(const ContextPointer& context, int64_t max_tenant_bytes);
  Pin Begin(Entry* entry, std::unique_ptr<ContextData> data, absl::Time now);
  Entry* FindBefore(const RegisteredContext& before);
  Entry* FindPrefix(const RegisteredContext& context);
  Entry* FindAwaited(const RegisteredContext& context);
  bool FitBoth(const Entry& before, const RegisteredContext& context) const;
  void PinPrefix(Entry* entry);
  void ChoosePrefix(Entry* entry);
  bool AwaitsPrefix(Entry* entry);
  static int64_t PrefixRows(const Entry& entry);
  static double FlopsOf(const Entry& entry);
  bool IsIndexed(const Entry& entry) const;
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
  bool StartWrite(Entry* entry, absl::Time now);  // false: no space in the host pool
  void HandOutWrite(Entry* entry, char* memory, absl::Time now);
  void CollectWriteCopy(absl::Time now);
  bool WritesPinned() const;
  void GiveUpWrite();
  std::optional<PoolRange> FindRoomFor(Entry* entry);
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
  RangeAllocator allocator_;   // context pool
  RangeAllocator workspaces_;  // encode pool
  RangeAllocator host_;        // host pool
  EntryList entries_;          // in order of arrival
  std::unordered_map<const RegisteredContext*, Entry*> index_;
  std::list<Entry*> lru_;        // resident and unpinned, the least recently used first
  std::list<Entry*> saved_lru_;  // saved, the least recently used first
  std::vector<Job> jobs_;
  std::vector<uint64_t> ended_jobs_;
  uint64_t next_job_ = 1;
  std::array<int64_t, kStates> by_state_ = {};
  int64_t evictable_bytes_ = 0;  // of the entries in lru_

  std::function<bool(const RegisteredContext&)> has_file_;  // empty: no files
  const bool host_reaches_contexts_;
  std::vector<FileTask> file_tasks_;
  std::deque<ContextPointer> unwritten_;  // encoded, without a file; the oldest first
  std::optional<FileWrite> write_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_H_
