#include "engine/store/context_table.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/column_info_json.h"
#include "engine/store/posix_file.h"
#include "engine/store/sqlite_statement.h"
#include "engine/store/sqlite_transaction.h"

namespace chorale {
namespace {

constexpr int64_t kApplicationId = 0x43484F52;  // "CHOR"

// A row in `datasets` states that the dataset's file must exist: it is inserted after the file is
// written, and removed before the file.
constexpr char kSchema[] = R"sql(
  CREATE TABLE datasets (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL CHECK (length(digest) = 64),
    bytes INTEGER NOT NULL CHECK (bytes >= 0),
    PRIMARY KEY (tenant, digest)
  ) STRICT;
  CREATE TABLE contexts (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    digest TEXT NOT NULL,
    target TEXT NOT NULL,
    columns TEXT NOT NULL,      -- JSON
    rows INTEGER NOT NULL,
    created_ns INTEGER NOT NULL,  -- since the Unix epoch
    checksum TEXT NOT NULL,       -- RecordChecksum
    PRIMARY KEY (tenant, name),
    FOREIGN KEY (tenant, digest) REFERENCES datasets (tenant, digest)
  ) STRICT;
  CREATE INDEX contexts_by_dataset ON contexts (tenant, digest);
)sql";

absl::Status RefuseNew(const std::string& path, ContextTable::IfNew if_new) {
  if (if_new == ContextTable::IfNew::kCreate) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path,
                   ": is missing or empty, but the folder contains datasets; restore the file, or "
                   "remove the datasets to start with an empty store"));
}

}  // namespace

absl::Status NoContext(const std::string& name) {
  return MakeError(ErrorReason::kContextNotFound, absl::StrCat("no context ", QuoteName(name)));
}

absl::StatusOr<std::unique_ptr<ContextTable>> ContextTable::Open(const std::string& path,
                                                                 IfNew if_new) {
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> connection, SqliteConnection::Open(path));
  std::unique_ptr<ContextTable> table(new ContextTable(std::move(connection)));
  // Before anything is written, so that no foreign database is changed.
  RETURN_IF_ERROR(table->CheckIdentity());
  RETURN_IF_ERROR(table->CheckPages());
  RETURN_IF_ERROR(table->CheckAge(if_new));
  RETURN_IF_ERROR(
      table->connection_->Execute("PRAGMA journal_mode = WAL;"
                                  "PRAGMA synchronous = FULL;"
                                  "PRAGMA foreign_keys = ON;"
                                  "PRAGMA secure_delete = ON;"
                                  "PRAGMA temp_store = MEMORY;"));  // there may be no folder for it
  if (table->is_new_) {
    RETURN_IF_ERROR(table->CreateSchema());
  } else if (table->version_ == 1) {
    RETURN_IF_ERROR(table->AddSummaries());
  } else if (table->version_ < kSchemaVersion) {
    RETURN_IF_ERROR(table->AddColumnsOfSummaries());
  }
  return table;
}

absl::Status ContextTable::Check(const std::string& path, IfNew if_new) {
  const bool has_log = IdentityOf(absl::StrCat(path, "-wal")).has_value();
  if (!IdentityOf(path).has_value()) return has_log ? absl::OkStatus() : RefuseNew(path, if_new);
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> connection,
                   SqliteConnection::OpenUnchanged(path));
  ContextTable table(std::move(connection));
  RETURN_IF_ERROR(table.CheckIdentity());
  if (has_log) return absl::OkStatus();
  RETURN_IF_ERROR(table.CheckPages());
  return table.CheckAge(if_new);
}

absl::Status ContextTable::CheckAge(IfNew if_new) const {
  return is_new_ ? RefuseNew(connection_->path(), if_new) : absl::OkStatus();
}

absl::StatusOr<int64_t> ContextTable::Pragma(const char* name) {
  SqliteStatement statement(*connection_, absl::StrCat("PRAGMA ", name));
  ASSIGN_OR_RETURN(bool row, statement.Step());
  return row ? statement.Integer(0) : 0;
}

absl::Status ContextTable::CheckIdentity() {
  ASSIGN_OR_RETURN(int64_t application, Pragma("application_id"));
  ASSIGN_OR_RETURN(int64_t version, Pragma("user_version"));
  SqliteStatement count(*connection_, "SELECT count(*) FROM sqlite_schema");
  RETURN_IF_ERROR(count.Step().status());

  is_new_ = application == 0 && version == 0 && count.Integer(0) == 0;
  if (is_new_) return absl::OkStatus();
  if (application != kApplicationId) {
    return absl::FailedPreconditionError(absl::StrCat(
        connection_->path(), ": is not a database of contexts (application id ", application, ")"));
  }
  version_ = version;
  if (version < 1 || version > kSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat(connection_->path(), ": has version ",
                                                      version, "; this program requires version ",
                                                      kSchemaVersion));
  }
  return absl::OkStatus();
}

absl::Status ContextTable::CheckPages() {
  // integrity_check, unlike quick_check, also compares tables with their indices, which contain
  // every name and digest again. The server removes files according to the indices.
  SqliteStatement check(*connection_, "PRAGMA integrity_check(1)");
  ASSIGN_OR_RETURN(bool row, check.Step());
  const std::string verdict = row ? check.Text(0) : "no result";
  if (verdict == "ok") return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(connection_->path(), ": is corrupt: ", verdict.substr(0, 200)));
}

absl::Status ContextTable::CreateSchema() {
  SqliteTransaction transaction(*connection_);
  RETURN_IF_ERROR(transaction.Begin());
  const std::string sql =
      absl::StrCat(kSchema, kSummarySchema, "PRAGMA application_id = ", kApplicationId,
                   "; PRAGMA user_version = ", kSchemaVersion, ";");
  RETURN_IF_ERROR(connection_->Execute(sql));
  return transaction.Commit();
}

absl::StatusOr<StoredContext> ContextTable::Read(const std::string& tenant,
                                                 const std::string& name) {
  SqliteStatement query(*connection_,
                        absl::StrCat(kSelectContexts, "WHERE tenant = ? AND name = ?"));
  query.Bind(tenant);
  query.Bind(name);
  ASSIGN_OR_RETURN(bool row, query.Step());
  if (!row) return NoContext(name);
  StoredContext stored = CopyContext(query);
  RETURN_IF_ERROR(AddSummary(&stored));
  return stored;
}

absl::Status ContextTable::AddSummary(StoredContext* stored) {
  absl::StatusOr<SummaryRow> summary = ReadSummary(stored->record.tenant, stored->record.name);
  // ParseContext reports a missing row, like a damaged row.
  if (absl::IsNotFound(summary.status())) return absl::OkStatus();
  RETURN_IF_ERROR(summary.status());
  stored->summary = *std::move(summary);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ContextRecord>> ContextTable::AllWithoutDetails() {
  SqliteStatement query(*connection_, kSelectContexts);
  std::vector<ContextRecord> records;
  while (true) {
    ASSIGN_OR_RETURN(bool row, query.Step());
    if (!row) return records;
    StoredContext stored = CopyContext(query);
    // A damaged list of columns is reported when the context is read.
    ColumnsFromJson(stored.json, &stored.record).IgnoreError();
    stored.record.feature_count = static_cast<int64_t>(stored.record.columns.size());
    stored.record.columns.clear();
    records.push_back(std::move(stored.record));
  }
}

absl::StatusOr<ContextRecord> ContextTable::Find(const std::string& tenant,
                                                 const std::string& name) {
  ASSIGN_OR_RETURN(StoredContext stored, Read(tenant, name));
  return ParseContext(std::move(stored), connection_->path());
}

absl::Status ContextTable::InsertRows(const ContextRecord& record, const std::string& columns) {
  SqliteStatement dataset(*connection_,
                          "INSERT INTO datasets (tenant, digest, bytes) VALUES (?, ?, ?)"
                          " ON CONFLICT DO NOTHING");
  dataset.Bind(record.tenant);
  dataset.Bind(record.digest);
  dataset.Bind(record.dataset_bytes);
  RETURN_IF_ERROR(dataset.Run());

  SqliteStatement context(
      *connection_,
      "INSERT INTO contexts (tenant, name, model, digest, target, columns, rows, created_ns,"
      " checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  context.Bind(record.tenant);
  context.Bind(record.name);
  context.Bind(record.model);
  context.Bind(record.digest);
  context.Bind(record.target);
  context.Bind(columns);
  context.Bind(record.rows);
  context.Bind(absl::ToUnixNanos(record.created));
  context.Bind(ContextChecksum(record, columns));
  RETURN_IF_ERROR(context.Run());
  return WriteSummary(*connection_, record);
}

absl::Status ContextTable::Insert(const ContextRecord& record) {
  ASSIGN_OR_RETURN(std::string columns, ColumnsToJson(record));
  SqliteTransaction transaction(*connection_);
  RETURN_IF_ERROR(transaction.Begin());
  RETURN_IF_ERROR(InsertRows(record, columns));
  return transaction.Commit();
}

absl::Status ContextTable::RemoveRows(const std::string& tenant, const std::string& name) {
  SqliteStatement context(*connection_,
                          "DELETE FROM contexts WHERE tenant = ? AND name = ? RETURNING digest");
  context.Bind(tenant);
  context.Bind(name);
  ASSIGN_OR_RETURN(bool row, context.Step());
  if (!row) return NoContext(name);
  const std::string digest = context.Text(0);
  // Runs to its end: SQLite rejects a commit while a statement is running.
  RETURN_IF_ERROR(context.Run());

  SqliteStatement dataset(*connection_,
                          "DELETE FROM datasets WHERE tenant = ?1 AND digest = ?2 AND NOT EXISTS"
                          " (SELECT 1 FROM contexts WHERE tenant = ?1 AND digest = ?2)");
  dataset.Bind(tenant);
  dataset.Bind(digest);
  return dataset.Run();
}

absl::Status ContextTable::Remove(const std::string& tenant, const std::string& name) {
  SqliteTransaction transaction(*connection_);
  RETURN_IF_ERROR(transaction.Begin());
  RETURN_IF_ERROR(RemoveRows(tenant, name));
  return transaction.Commit();
}

absl::StatusOr<bool> ContextTable::Names(const std::string& tenant, const std::string& digest) {
  SqliteStatement query(*connection_, "SELECT 1 FROM datasets WHERE tenant = ? AND digest = ?");
  query.Bind(tenant);
  query.Bind(digest);
  return query.Step();
}

absl::StatusOr<bool> ContextTable::EmptyLog() { return connection_->EmptyLog(); }

absl::StatusOr<StoreTotals> ContextTable::Totals() {
  SqliteStatement query(*connection_,
                        "SELECT (SELECT COUNT(*) FROM contexts), "
                        "(SELECT COALESCE(SUM(bytes), 0) FROM datasets)");
  RETURN_IF_ERROR(query.Step().status());
  return StoreTotals{query.Integer(0), query.Integer(1)};
}

absl::StatusOr<StoreTotals> ContextTable::TotalsOf(const std::string& tenant) {
  SqliteStatement query(*connection_,
                        "SELECT (SELECT COUNT(*) FROM contexts WHERE tenant = ?1), "
                        "(SELECT COALESCE(SUM(bytes), 0) FROM datasets WHERE tenant = ?1)");
  query.Bind(tenant);
  RETURN_IF_ERROR(query.Step().status());
  return StoreTotals{query.Integer(0), query.Integer(1)};
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ContextTable::AllDatasets() {
  SqliteStatement query(*connection_, "SELECT tenant, digest FROM datasets");
  std::vector<std::pair<std::string, std::string>> datasets;
  while (true) {
    ASSIGN_OR_RETURN(bool row, query.Step());
    if (!row) return datasets;
    datasets.emplace_back(query.Text(0), query.Text(1));
  }
}

}  // namespace chorale
