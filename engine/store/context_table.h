// The records of registered contexts in SQLite: schema, and one function per query.
#ifndef CHORALE_ENGINE_STORE_CONTEXT_TABLE_H_
#define CHORALE_ENGINE_STORE_CONTEXT_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/store/context_store.h"
#include "engine/store/sqlite_connection.h"
#include "engine/store/sqlite_statement.h"

namespace chorale {

// A record as the database keeps it: what stands in `json`, some 100 bytes a column, is neither
// parsed nor checked yet.
struct StoredContext {
  ContextRecord record;  // but for what ColumnsFromJson fills
  std::string json;
  std::string checksum;

  // What a page counts.
  int64_t bytes() const;
};

// DataLoss, naming the database `path`, when it is damaged.
absl::StatusOr<ContextRecord> ParseContext(StoredContext stored, const std::string& path);

// Not thread-safe: its owner serialises all calls. A change is durable once its function has
// returned Ok.
class ContextTable {
 public:
  enum class IfNew { kCreate, kRefuse };

  // Opens the database. One that is missing or empty gets its schema, or is refused. Errors name
  // the file: FailedPrecondition: made by something else or by another version. DataLoss: corrupt,
  // or refused because it is new.
  static absl::StatusOr<std::unique_ptr<ContextTable>> Open(const std::string& path, IfNew if_new);

  // The errors of Open, as far as they can be found while nothing is changed and another process
  // may have the database open. Where there is a log, which may be newer than the file, only what a
  // log cannot put right: that the file is of something else or of another version.
  static absl::Status Check(const std::string& path, IfNew if_new);

  // NotFound when there is none.
  absl::StatusOr<StoredContext> Read(const std::string& tenant, const std::string& name);

  // The same, parsed.
  absl::StatusOr<ContextRecord> Find(const std::string& tenant, const std::string& name);

  // REQUIRES: no record of that tenant and name.
  absl::Status Insert(const ContextRecord& record);

  // NotFound when there is none.
  absl::Status Remove(const std::string& tenant, const std::string& name);

  // Whether any of the tenant's records names the dataset.
  absl::StatusOr<bool> Names(const std::string& tenant, const std::string& digest);

  struct Page {
    std::vector<StoredContext> contexts;  // by name
    bool last = true;                     // there are no more
  };
  // The contexts after `after`, by name.
  absl::StatusOr<Page> List(const std::string& tenant, const std::string& after, PageLimits limits);

  // Moves what the log of the database holds into the database and empties the log. False when
  // another process, such as a backup, reads from it.
  absl::StatusOr<bool> EmptyLog();

  absl::StatusOr<StoreTotals> Totals();
  absl::StatusOr<StoreTotals> TotalsOf(const std::string& tenant);
  // At most `count` contexts of all tenants, the most recently created first.
  absl::StatusOr<std::vector<ContextSummary>> ListNewest(int64_t count);

  // (tenant, digest) of every dataset that a record names.
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
  absl::Status RemoveRows(const std::string& tenant, const std::string& name);

  const std::unique_ptr<SqliteConnection> connection_;
  bool is_new_ = false;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_TABLE_H_
