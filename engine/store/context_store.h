// Durable storage of registered contexts. Contexts for which Put returned OK survive any crash.
#ifndef CHORALE_ENGINE_STORE_CONTEXT_STORE_H_
#define CHORALE_ENGINE_STORE_CONTEXT_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/data/calendar_features.h"
#include "engine/data/memory_set.h"
#include "engine/data/table.h"
#include "engine/store/context_query.h"

namespace chorale {

struct ColumnInfo {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  int64_t categories = 0;  // distinct categories, if categorical
  int64_t missing = 0;     // missing cells
  // Warnings (ColumnNote) of the model that the context was registered with; zero and false for
  // contexts that were registered before these fields existed.
  int64_t outside_bulk = 0;
  bool left_out = false;
  double season_steps = 0;
  Meaning meaning = Meaning::kNumber;          // of a numeric column
  std::vector<CalendarFeature> calendar = {};  // reported since this field exists
};

// What users attach to a context. It is not part of the content.
struct ContextDetails {
  std::string description;
  std::map<std::string, std::string> labels;
  absl::Time expires = absl::InfiniteFuture();  // when the context may be deleted

  bool operator==(const ContextDetails&) const = default;
};

// A registered context. (tenant, name) identifies it; digest identifies its content.
struct ContextRecord {
  std::string tenant;
  std::string name;                 // [a-z0-9][a-z0-9._-]{0,62}
  std::string model;                // name of the model that encodes it
  std::string digest;               // of the encoded dataset, lower-case hex SHA-256
  std::string target;               // name of the target column
  std::vector<ColumnInfo> columns;  // features, in the order registered
  int64_t feature_count = 0;        // the size of `columns`, which may be left out of a list
  // kTransformVersion of the server that sought a season and set season_steps of the columns; empty
  // if no season was sought.
  std::string season_transform = {};
  int64_t clipped_targets =
      0;  // values treated as errors (ColumnNote::clipped_targets); see ColumnInfo
  int64_t rows = 0;
  int64_t appended_rows = 0;  // AppendedRowCount of the dataset
  MemorySet memory = {};
  int64_t dataset_bytes = 0;
  absl::Time created;
  ContextDetails details = {};
  absl::Time updated = {};                      // the last change of content or details
  absl::Time last_used = absl::InfinitePast();  // see ContextStore::NoteUses; else unknown

  ContextShape shape() const { return {.rows = rows, .memory = memory}; }
};

// Identifies a version of a context: its content, its model and its details.
std::string EtagOf(const ContextRecord& record);

enum class PutOutcome {
  kCreated,
  kUnchanged,  // the name is registered with the same content and model
  kReplaced,   // the name was registered with other content or another model
};

// Allows Put to replace a context.
struct Replacement {
  std::string etag;  // the etag that the context must have; empty: any, or no context
};

struct ContextPage {
  std::vector<ContextRecord> records;
  std::string next_page_token;  // empty on the last page
};

// (tenant, name) of a context, and the input for an estimate of its size.
struct ContextSummary {
  std::string tenant;
  std::string name;
  std::string model;
  ContextShape shape;
};

// (tenant, name) of a context.
struct ContextKey {
  std::string tenant;
  std::string name;

  bool operator==(const ContextKey&) const = default;
};

// A use of a context.
struct ContextUse {
  std::string tenant;
  std::string name;
  absl::Time time;
};

// Limits for the contexts of one tenant. 0: no limit.
struct StoreQuota {
  int64_t contexts = 0;
  int64_t dataset_bytes = 0;  // contexts of the same content share one dataset
};

struct StoreTotals {
  int64_t contexts = 0;
  int64_t dataset_bytes = 0;    // a tenant's contexts of the same content share one dataset
  int64_t disk_free_bytes = 0;  // free bytes of the store's disk, for this process
  bool disk_full = false;       // Put fails: a write found no free space, and there is still none
};

// Thread-safe. Calls block on disk I/O; never call them from a callback of a gRPC reactor or from
// the engine thread. Errors other than Internal and DataLoss are safe to return to clients: they
// contain no path.
class ContextStore {
 public:
  virtual ~ContextStore() = default;

  // Stores a context, and returns when the record and the dataset are durable. Times are stored
  // with nanosecond precision; the times and the details remain those of the first Put.
  // InvalidArgument: the record's digest or dataset_bytes are not those of the dataset.
  // AlreadyExists: the name is registered with other content or another model. ResourceExhausted,
  // with reason DISK_FULL and RetryDelay: the disk is full; nothing is written until there is free
  // space. QuotaExceeded of base/error_details: a new record would exceed the tenant's quota, which
  // also holds under concurrent Puts. Unavailable: the database cannot be written, see Health.
  // Internal: other I/O errors; after a restart the context either exists completely or does not
  // exist.
  //
  // With `replacement`, replaces other content or another model of the name in a single
  // transaction: after a crash, the store has the old or the new context. The times of its creation
  // and of its last use stay; calls that read the old dataset finish. Aborted, with reason
  // ETAG_MISMATCH: the context does not have the etag, or there is no context. The etag is not
  // compared if the content and the model are the same.
  virtual absl::StatusOr<PutOutcome> Put(const ContextRecord& record, absl::string_view dataset,
                                         const StoreQuota& quota,
                                         const std::optional<Replacement>& replacement) = 0;
  absl::StatusOr<PutOutcome> Put(const ContextRecord& record, absl::string_view dataset,
                                 const StoreQuota& quota = {}) {
    return Put(record, dataset, quota, std::nullopt);
  }

  // Returns the outcome or the error that Put would return now, as far as it does not depend on the
  // dataset. Stores nothing.
  virtual absl::StatusOr<PutOutcome> CheckPut(const ContextRecord& record, const StoreQuota& quota,
                                              const std::optional<Replacement>& replacement) = 0;
  absl::StatusOr<PutOutcome> CheckPut(const ContextRecord& record, const StoreQuota& quota) {
    return CheckPut(record, quota, std::nullopt);
  }

  // Returns NotFound if the tenant has no context of that name, even if another tenant has one.
  virtual absl::StatusOr<ContextRecord> Get(const std::string& tenant, const std::string& name) = 0;

  // Replaces the details of a context, and returns when the change is durable. NotFound.
  virtual absl::Status UpdateDetails(const std::string& tenant, const std::string& name,
                                     const ContextDetails& details, absl::Time updated) = 0;
  // Stores the times of the last uses of contexts. Ignores contexts that do not exist, and times
  // before the stored time.
  virtual absl::Status NoteUses(const std::vector<ContextUse>& uses) = 0;
  // Returns at most `limit` contexts of all tenants that expire at `now` or earlier, the earliest
  // first.
  virtual absl::StatusOr<std::vector<ContextKey>> ListExpired(absl::Time now, int64_t limit) = 0;

  // Returns the bytes that were passed to Put. NotFound: there is no such context. DataLoss: the
  // bytes no longer match the digest.
  virtual absl::StatusOr<std::string> ReadDataset(const std::string& tenant,
                                                  const std::string& name) = 0;

  // Returns the page that follows the page with this token; the first page for an empty token.
  // InvalidArgument: the store did not issue the token for a list of the same contexts in the same
  // order.
  virtual absl::StatusOr<ContextPage> List(const std::string& tenant, const ContextQuery& query,
                                           PageLimits limits, const std::string& page_token) = 0;
  absl::StatusOr<ContextPage> List(const std::string& tenant, PageLimits limits,
                                   const std::string& page_token) {
    return List(tenant, ContextQuery(), limits, page_token);
  }

  // Returns at most `limit` contexts of all tenants, the most recently created first. Does not
  // verify checksums.
  virtual absl::StatusOr<std::vector<ContextSummary>> ListNewest(int64_t limit) = 0;

  // Deletes a context, also on a full disk. The dataset's file is removed unless another context of
  // the tenant refers to it; a call that still reads the file delays the removal. Within about a
  // second the record is overwritten in the database and removed from its log.
  virtual absl::Status Delete(const std::string& tenant, const std::string& name) = 0;

  // Removes data on the same disk that can be recomputed, `bytes` bytes if there are as many.
  // Returns false if there was nothing to remove. Put calls it, on any thread, before it reports a
  // full disk. Call UseFreeDisk before the first Put, or while no Put is running; null: nothing can
  // be removed.
  using FreeDisk = std::function<bool(int64_t bytes)>;
  virtual void UseFreeDisk(FreeDisk free_disk) {}

  // Totals over all tenants.
  virtual absl::StatusOr<StoreTotals> Totals() = 0;

  // Returns Unavailable while the store's open files are not the files under their names: they were
  // removed, moved or replaced, and any write would be lost. Put and Delete then fail with the same
  // error.
  virtual absl::Status Health() const { return absl::OkStatus(); }

  // Flushes and closes the store. Later calls return FailedPrecondition.
  virtual absl::Status Close() = 0;
};

// Opens a store: records in SQLite (WAL, synchronous=FULL) in `folder`/contexts.db, and datasets as
// content-addressed files next to it, written to a temporary name, fsynced and renamed. Creates the
// folder if it does not exist. Removes temporary files that a crash left behind. Moves dataset
// files without a record to `folder`/lost, and keeps them there until a start with a database that
// refers to them, which restores them. The file RESERVE reserves disk space for deletions. A
// context whose dataset file is missing remains listed; reading it returns DataLoss, and a Put of
// the same content repairs it.
//
// Returns FailedPrecondition or DataLoss, with the file, if another process has the folder open, or
// the database has another version, is corrupt, or is missing although there are datasets.
absl::StatusOr<std::unique_ptr<ContextStore>> OpenSqliteContextStore(const std::string& folder);

// Returns the errors that OpenSqliteContextStore would return for the folder, as far as they can be
// detected without changing anything and while another process may have the folder open. Does not
// report that another process has it open. Of the errors of a database with a log, reports only
// those of ContextTable::Check. Reads the whole database.
std::vector<absl::Status> CheckContextStore(const std::string& folder);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_STORE_H_
