// Durable storage of registered contexts. What Put has acknowledged survives any crash.
#ifndef CHORALE_ENGINE_STORE_CONTEXT_STORE_H_
#define CHORALE_ENGINE_STORE_CONTEXT_STORE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/data/table.h"

namespace chorale {

struct ColumnInfo {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  int64_t categories = 0;  // distinct categories, when categorical
  int64_t missing = 0;     // missing cells
  // What the model that the context was registered with made of it (ColumnNote); nothing for
  // contexts that were registered before this was kept.
  int64_t outside_bulk = 0;
  bool left_out = false;
  double season_steps = 0;
  Meaning meaning = Meaning::kNumber;  // of a numeric column
};

// A context as it is registered. (tenant, name) identifies it; digest identifies its content.
struct ContextRecord {
  std::string tenant;
  std::string name;                 // [a-z0-9][a-z0-9._-]{0,62}
  std::string model;                // name of the model that it is encoded with
  std::string digest;               // of the encoded dataset, lower-case hex SHA-256
  std::string target;               // name of the target column
  std::vector<ColumnInfo> columns;  // features, in the order registered
  // kTransformVersion of the server that sought a season and wrote season_steps of the columns;
  // empty: none was sought.
  std::string season_transform = {};
  int64_t far_targets = 0;  // values taken for errors (ColumnNote::wrong_targets); see ColumnInfo
  int64_t rows = 0;
  int64_t dataset_bytes = 0;
  absl::Time created;
};

enum class PutOutcome {
  kCreated,
  kUnchanged,  // the same content and model was registered under this name before
};

// Where a page of contexts ends: at whichever is reached first, but not before its first context.
struct PageLimits {
  int64_t contexts = 1000;  // 1 to 1000
  // Of the records as the store keeps them; as a message none takes more.
  int64_t bytes = std::numeric_limits<int64_t>::max();
};

struct ContextPage {
  std::vector<ContextRecord> records;  // ordered by name
  std::string next_page_token;         // empty on the last page
};

// (tenant, name) of a context, and what its model needs to tell its size.
struct ContextSummary {
  std::string tenant;
  std::string name;
  std::string model;
  int64_t rows = 0;
};

// What the contexts of one tenant may take. 0: no limit.
struct StoreQuota {
  int64_t contexts = 0;
  int64_t dataset_bytes = 0;  // contexts of the same content share one dataset
};

struct StoreTotals {
  int64_t contexts = 0;
  int64_t dataset_bytes = 0;    // a tenant's contexts of the same content share one dataset
  int64_t disk_free_bytes = 0;  // of the store's disk, for this process
  bool disk_full = false;       // Put refuses: a write found no room, and there is none yet
};

// Thread-safe. Calls block on disk; never call them from a gRPC reactor's callback or the engine
// thread. Errors other than Internal and DataLoss are fit for clients: they name no path.
class ContextStore {
 public:
  virtual ~ContextStore() = default;

  // Returns when the record and the dataset are durable. The record's digest and dataset_bytes are
  // those of the dataset (InvalidArgument otherwise); `created` is kept to the nanosecond, and is
  // that of the first Put. AlreadyExists: the name is taken by other content or another model.
  // ResourceExhausted, with reason DISK_FULL and RetryDelay: the disk is full; nothing is written
  // until there is room. Unavailable: the database cannot be written, see Health. Internal: other
  // I/O errors; after a restart the context is then there or not, but never partly.
  // base/error_details' QuotaExceeded: a new record would exceed the tenant's quota, which holds
  // whatever other Puts run.
  virtual absl::StatusOr<PutOutcome> Put(const ContextRecord& record, absl::string_view dataset,
                                         const StoreQuota& quota) = 0;
  absl::StatusOr<PutOutcome> Put(const ContextRecord& record, absl::string_view dataset) {
    return Put(record, dataset, StoreQuota());
  }

  // NotFound, also when another tenant has a context of that name.
  virtual absl::StatusOr<ContextRecord> Get(const std::string& tenant, const std::string& name) = 0;

  // The bytes given to Put. NotFound, or DataLoss when they no longer match the digest.
  virtual absl::StatusOr<std::string> ReadDataset(const std::string& tenant,
                                                  const std::string& name) = 0;

  // The page after the one that gave the token; empty: the first. InvalidArgument for a token that
  // this store did not issue.
  virtual absl::StatusOr<ContextPage> List(const std::string& tenant, PageLimits limits,
                                           const std::string& page_token) = 0;

  // At most `limit` contexts of all tenants, the most recently created first. Nothing is checked
  // against checksums.
  virtual absl::StatusOr<std::vector<ContextSummary>> ListNewest(int64_t limit) = 0;

  // Works on a full disk, too. The dataset's file is gone then; within a second the record is
  // overwritten in the database and gone from its log.
  virtual absl::Status Delete(const std::string& tenant, const std::string& name) = 0;

  // Removes what can be had again from the same disk, so many bytes of it if there are as many;
  // returns false if there was nothing. Put asks for that, on any thread, before it says that the
  // disk is full. Call before the first Put, or when none is running; null: there is nothing.
  using FreeDisk = std::function<bool(int64_t bytes)>;
  virtual void UseFreeDisk(FreeDisk free_disk) {}

  // Of all tenants.
  virtual absl::StatusOr<StoreTotals> Totals() = 0;

  // Unavailable while what the store has open is not what lies under its names: it was removed,
  // moved or replaced, and what would be written would be lost. Put and Delete are then refused.
  virtual absl::Status Health() const { return absl::OkStatus(); }

  // Flushes and closes. Later calls answer FailedPrecondition.
  virtual absl::Status Close() = 0;
};

// SQLite (WAL, synchronous=FULL) in `folder`/contexts.db for records, and the datasets beside it as
// content-addressed files, written to a temporary name, fsynced and renamed. Creates the folder if
// there is none. Refuses (FailedPrecondition or DataLoss, naming the file) a folder that another
// process has open, a database of another version, a corrupt one, or one that is gone although
// datasets are there. Removes temporary files that a crash left behind. Dataset files that no
// record names are moved to `folder`/lost and stay there: the next start with a database that names
// them takes them back. The file RESERVE keeps room for deletions. A context whose
// dataset file is gone stays listed, answers DataLoss when it is read, and is mended by a Put of
// the same content.
absl::StatusOr<std::unique_ptr<ContextStore>> OpenSqliteContextStore(const std::string& folder);

// All that would keep OpenSqliteContextStore from opening the folder, as far as it can be found
// while nothing is changed and another process may have it open: not that one has it, and of a
// database with a log only what ContextTable::Check says. Reads the whole database.
std::vector<absl::Status> CheckContextStore(const std::string& folder);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_STORE_H_
