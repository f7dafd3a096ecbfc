// The context store on a local disk: records in SQLite, datasets in files.
#ifndef CHORALE_ENGINE_STORE_SQLITE_CONTEXT_STORE_H_
#define CHORALE_ENGINE_STORE_SQLITE_CONTEXT_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "engine/store/context_store.h"
#include "engine/store/context_table.h"
#include "engine/store/dataset_files.h"
#include "engine/store/disk_room.h"
#include "engine/store/posix_file.h"
#include "engine/store/rate_limited_task.h"
#include "engine/store/store_paths.h"

namespace chorale {

// The rules that keep acknowledged contexts safe and the folder clean:
//   - Put makes the file durable before the record; Delete removes the record before the file. So a
//     record's file always exists, and a crash leaves at most a file without a record.
//   - A call pins the dataset that it uses. If no record refers to the dataset any longer, Delete
//     removes the file, or, if the dataset is pinned, the release of the last pin does.
//   - Open removes temporary files, and moves datasets without a record to `lost`. A crash leaves
//     at most one such file for each call in flight. But a database that was damaged, or restored
//     from a copy, may also lack acknowledged contexts, and Open cannot distinguish the two cases.
//   - A dataset with a record has no copy in `lost`, so that Delete removes every copy.
//   - Put and Delete verify before and after a change that the database and the folder of datasets
//     are still those that Open opened. So no change is acknowledged that exists only in files
//     without a name.
//   - A deletion that finds the disk full uses the reserve of DiskRoom.
//
// Thread-safe. Files are read and written, and records parsed, without the mutex, so that a large
// dataset or a wide table delays no other call; the mutex guards the database and the pins. Close
// waits for calls in progress.
class SqliteContextStore : public ContextStore {
 public:
  static absl::StatusOr<std::unique_ptr<ContextStore>> Open(const std::string& folder);
  ~SqliteContextStore() override;

  using ContextStore::Put;
  absl::StatusOr<PutOutcome> Put(const ContextRecord& record, absl::string_view dataset,
                                 const StoreQuota& quota,
                                 const std::optional<Replacement>& replacement) override;
  using ContextStore::CheckPut;
  absl::StatusOr<PutOutcome> CheckPut(const ContextRecord& record, const StoreQuota& quota,
                                      const std::optional<Replacement>& replacement) override;
  absl::StatusOr<ContextRecord> Get(const std::string& tenant, const std::string& name) override;
  absl::Status UpdateDetails(const std::string& tenant, const std::string& name,
                             const ContextDetails& details, absl::Time updated) override;
  absl::Status NoteUses(const std::vector<ContextUse>& uses) override;
  absl::StatusOr<std::vector<ContextKey>> ListExpired(absl::Time now, int64_t limit) override;
  absl::StatusOr<std::string> ReadDataset(const std::string& tenant,
                                          const std::string& name) override;
  using ContextStore::List;
  absl::StatusOr<ContextPage> List(const std::string& tenant, const ContextQuery& query,
                                   PageLimits limits, const std::string& page_token) override;
  absl::StatusOr<std::vector<ContextSummary>> ListNewest(int64_t limit) override;
  absl::Status Delete(const std::string& tenant, const std::string& name) override;
  void UseFreeDisk(FreeDisk free_disk) override { free_disk_ = std::move(free_disk); }
  absl::StatusOr<StoreTotals> Totals() override;
  absl::Status Health() const override;
  absl::Status Close() override;

 private:
  struct DatasetId {
    std::string tenant;
    std::string digest;
  };
  class Pin;

  struct Locks {
    FileDescriptor file;    // LOCK
    FileDescriptor folder;  // in case an operator removes the file
  };

  SqliteContextStore(const StorePaths& paths, Locks locks, std::unique_ptr<DiskRoom> room,
                     std::unique_ptr<ContextTable> table, std::unique_ptr<DatasetFiles> files);

  // The terms of a Put.
  struct Terms {
    const StoreQuota& quota;
    const std::optional<Replacement>& replacement;
  };

  absl::StatusOr<PutOutcome> StoreContext(const ContextRecord& record, absl::string_view dataset,
                                          const Terms& terms) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Remove(const std::string& tenant, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Repeats a deletion that ended in `failure`, with the reserve released.
  absl::Status RemoveOnFullDisk(const std::string& tenant, const std::string& name,
                                absl::Status failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Empties the log with the reserve released, and allocates the reserve again.
  void EmptyLogOnFullDisk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Converts an error for the caller. Paths in it are logged.
  absl::Status ForCaller(const absl::Status& status);
  // Returns false if the call should be repeated.
  bool EmptyLog() ABSL_LOCKS_EXCLUDED(mutex_);

  static absl::Status ClosedError();
  // ClosedError once the store is closed.
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns errors for the caller.
  absl::StatusOr<StoredContext> ReadStored(const std::string& tenant, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reconciles files, by key, with the records: moves files without a record to `lost`, and
  // restores from there the files that a record refers to.
  absl::Status MatchFiles(std::set<std::string> files) ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes the dataset. If the disk is full, frees disk space if possible.
  absl::Status WriteDataset(const std::string& key, absl::string_view dataset);
  // Inserts the record, or replaces the record of the same name. Frees disk space if necessary.
  absl::Status WriteRecord(const ContextRecord& record, PutOutcome outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Replaces the record of the same name, and removes its dataset if it is not needed any longer.
  absl::Status ReplaceRecord(ContextRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FreeDiskOf(int64_t bytes) const;
  // Returns kUnchanged, kReplaced or an error of Put if there is a record of that name, else
  // kCreated.
  absl::StatusOr<PutOutcome> Compare(const ContextRecord& record,
                                     const std::optional<Replacement>& replacement)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Compare, then CheckQuota if the record would be written. Also checks that the store is open.
  absl::StatusOr<PutOutcome> CompareWithinQuota(const ContextRecord& record, const Terms& terms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns OK if the tenant's quota allows this record. `outcome`: kCreated or kReplaced.
  absl::Status CheckQuota(const ContextRecord& record, const StoreQuota& quota, PutOutcome outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddPin(const DatasetId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropPin(const DatasetId& id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes the file if no record refers to it and no call pins it. A failure is logged: the next
  // Open tries again.
  void RemoveUnneeded(const DatasetId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A path that must refer to the same file as when the store was opened.
  struct Watched {
    std::string path;
    FileIdentity identity;
  };

  const std::string database_;                 // its path
  const std::unique_ptr<DatasetFiles> files_;  // thread-safe
  const std::unique_ptr<DiskRoom> room_;       // thread-safe
  std::vector<Watched> watched_;               // constant after construction
  mutable std::atomic<bool> healthy_ = true;   // the state that was last logged
  FreeDisk free_disk_;                         // null: nothing to free

  mutable Mutex mutex_;
  CondVar unpinned_;
  std::unique_ptr<ContextTable> table_ ABSL_GUARDED_BY(mutex_);             // null once closed
  absl::flat_hash_map<std::string, int64_t> pins_ ABSL_GUARDED_BY(mutex_);  // by dataset key
  // Keys of datasets whose record may or may not exist after the next Open.
  absl::flat_hash_set<std::string> doubtful_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  Locks locks_ ABSL_GUARDED_BY(mutex_);  // released last
  // Null once closed.
  std::unique_ptr<RateLimitedTask> log_emptier_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_SQLITE_CONTEXT_STORE_H_
