// The context store on a local disk: records in SQLite, datasets in files.
#ifndef CHORALE_ENGINE_STORE_SQLITE_CONTEXT_STORE_H_
#define CHORALE_ENGINE_STORE_SQLITE_CONTEXT_STORE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "engine/store/context_store.h"
#include "engine/store/context_table.h"
#include "engine/store/dataset_files.h"
#include "engine/store/posix_file.h"

namespace chorale {

// What keeps acknowledged contexts safe and the folder clean:
//   - Put makes the file durable before the record; Delete removes the record before the file. So
//     a record's file always exists, and a crash leaves at most a file that no record names.
//   - A call pins the dataset that it works on. Its file is removed by Delete or, if pinned then,
//     with the last pin, provided that no record names it.
//   - Open removes temporary files, and moves datasets that no record names to `lost`. A crash
//     leaves at most one for each call in flight; but a database that was damaged, or restored from
//     a copy, may lack contexts that were acknowledged, and the two cannot be told apart.
//   - A dataset that a record names has no copy in `lost`: Delete removes every copy.
//
// Thread-safe. Files are read and written without the mutex, so that a large dataset delays no
// other call; the mutex guards the database and the pins. Close waits for calls in progress.
class SqliteContextStore : public ContextStore {
 public:
  static absl::StatusOr<std::unique_ptr<ContextStore>> Open(const std::string& folder);
  ~SqliteContextStore() override;

  absl::StatusOr<PutOutcome> Put(const ContextRecord& record, absl::string_view dataset) override;
  absl::StatusOr<ContextRecord> Get(const std::string& tenant, const std::string& name) override;
  absl::StatusOr<std::string> ReadDataset(const std::string& tenant,
                                          const std::string& name) override;
  absl::StatusOr<ContextPage> List(const std::string& tenant, int64_t page_size,
                                   const std::string& page_token) override;
  absl::Status Delete(const std::string& tenant, const std::string& name) override;
  absl::Status Close() override;

 private:
  struct DatasetId {
    std::string tenant;
    std::string digest;
  };
  class Pin;

  SqliteContextStore(FileDescriptor lock, std::unique_ptr<ContextTable> table,
                     std::unique_ptr<DatasetFiles> files)
      : files_(std::move(files)), table_(std::move(table)), lock_(std::move(lock)) {}

  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reconciles files, by key, with the records: moves files that no record names to `lost`, and
  // takes back those that a record names.
  absl::Status MatchFiles(std::set<std::string> files) ABSL_LOCKS_EXCLUDED(mutex_);
  // kUnchanged or AlreadyExists if there is a record of that name, else kCreated.
  absl::StatusOr<PutOutcome> Compare(const ContextRecord& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddPin(const DatasetId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropPin(const DatasetId& id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes the file if no record names it and no call pins it. A failure is logged: the
  // next Open tries again.
  void RemoveUnneeded(const DatasetId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<DatasetFiles> files_;  // thread-safe by itself

  Mutex mutex_;
  CondVar unpinned_;
  std::unique_ptr<ContextTable> table_ ABSL_GUARDED_BY(mutex_);             // null once closed
  absl::flat_hash_map<std::string, int64_t> pins_ ABSL_GUARDED_BY(mutex_);  // by dataset key
  // Keys of datasets whose record may or may not be there after the next Open.
  absl::flat_hash_set<std::string> doubtful_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  FileDescriptor lock_ ABSL_GUARDED_BY(mutex_);  // of the folder; released last
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_SQLITE_CONTEXT_STORE_H_
