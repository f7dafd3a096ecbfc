// The records of registered contexts in SQLite: schema, and one function per query.
#ifndef CHORALE_ENGINE_STORE_CONTEXT_TABLE_H_
#define CHORALE_ENGINE_STORE_CONTEXT_TABLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/store/context_list_sql.h"
#include "engine/store/context_row.h"
#include "engine/store/context_store.h"
#include "engine/store/sqlite_connection.h"
#include "engine/store/sqlite_statement.h"

namespace chorale {

// NotFound, with the reason CONTEXT_NOT_FOUND.
absl::Status NoContext(const std::string& name);

// Not thread-safe: the owner serialises all calls. A change is durable when its function has
// returned OK.
class ContextTable {
 public:
  enum class IfNew { kCreate, kRefuse };
  static constexpr int64_t kSchemaVersion = 4;

  // Opens the database. If it is missing or empty, creates the schema or fails, according to
  // `if_new`. Adds to a database of an earlier version what it lacks: the summaries to version 1,
  // and columns of the summaries to later versions. Errors contain the path. FailedPrecondition:
  // another program or version created the file. DataLoss: the database is corrupt, or is missing
  // or empty with IfNew::kRefuse.
  static absl::StatusOr<std::unique_ptr<ContextTable>> Open(const std::string& path, IfNew if_new);

  // Returns the errors of Open, as far as they can be detected without changing anything and while
  // another process may have the database open. If there is a log, which may be newer than the
  // file, reports only errors that a log cannot repair: that the file belongs to another program or
  // version.
  static absl::Status Check(const std::string& path, IfNew if_new);

  // Returns NotFound if there is no such record.
  absl::StatusOr<StoredContext> Read(const std::string& tenant, const std::string& name);

  // Read, then ParseContext.
  absl::StatusOr<ContextRecord> Find(const std::string& tenant, const std::string& name);

  // REQUIRES: no record of that tenant and name.
  absl::Status Insert(const ContextRecord& record);

  // Replaces the record of the same tenant and name in a single transaction. NotFound.
  absl::Status Replace(const ContextRecord& record);

  // Returns the bytes of the dataset to which only this context refers; 0 if others do, or if there
  // is no such context.
  absl::StatusOr<int64_t> BytesOfOwnDataset(const std::string& tenant, const std::string& name);

  // As in ContextStore. NotFound if there is no such record.
  absl::Status UpdateDetails(const std::string& tenant, const std::string& name,
                             const ContextDetails& details, absl::Time updated);
  absl::Status NoteUses(const std::vector<ContextUse>& uses);
  absl::StatusOr<std::vector<ContextKey>> ListExpired(absl::Time now, int64_t count);

  // Returns NotFound if there is no such record.
  absl::Status Remove(const std::string& tenant, const std::string& name);

  // Whether any of the tenant's records refers to the dataset.
  absl::StatusOr<bool> Names(const std::string& tenant, const std::string& digest);

  struct Page {
    std::vector<StoredContext> contexts;  // in the order of the query
    std::optional<ListPosition> next;     // of the last context, if further contexts follow
  };
  // Returns the contexts that follow `after`; without the columns of the query, only their tenants,
  // names and summaries.
  absl::StatusOr<Page> List(const std::string& tenant, const ContextQuery& query,
                            const std::optional<ListPosition>& after, PageLimits limits);

  // Moves the content of the database's log into the database and empties the log. Returns false if
  // another process, such as a backup, reads from the log.
  absl::StatusOr<bool> EmptyLog();

  absl::StatusOr<StoreTotals> Totals();
  absl::StatusOr<StoreTotals> TotalsOf(const std::string& tenant);
  // Returns at most `count` contexts of all tenants, the most recently created first.
  absl::StatusOr<std::vector<ContextSummary>> ListNewest(int64_t count);

  // (tenant, digest) of every dataset that a record refers to.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> AllDatasets();

 private:
  explicit ContextTable(std::unique_ptr<SqliteConnection> connection)
      : connection_(std::move(connection)) {}

  absl::StatusOr<int64_t> Pragma(const char* name);
  absl::Status CheckIdentity();
  absl::Status CheckPages();
  absl::Status CheckAge(IfNew if_new) const;
  absl::Status CreateSchema();
  absl::Status InsertRows(const ContextRecord& record, const std::string& columns);
  // NotFound if there is no such row.
  absl::Status AddSummary(StoredContext* stored);
  absl::StatusOr<SummaryRow> ReadSummary(const std::string& tenant, const std::string& name);
  absl::StatusOr<ContextRecord> FindSummary(const std::string& tenant, const std::string& name);
  // All records, without columns, updated, last_used and details.
  absl::StatusOr<std::vector<ContextRecord>> AllWithoutDetails();
  absl::Status AddSummaries();
  absl::Status AddColumnsOfSummaries();
  absl::Status RemoveRows(const std::string& tenant, const std::string& name);

  const std::unique_ptr<SqliteConnection> connection_;
  bool is_new_ = false;
  int64_t version_ = kSchemaVersion;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_TABLE_H_
