#include "engine/store/context_table.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/column_info_json.h"
#include "engine/store/failpoint.h"
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

constexpr char kSelect[] =
    "SELECT tenant, name, model, digest, target, columns, rows, created_ns, bytes,"
    " checksum FROM contexts JOIN datasets USING (tenant, digest) ";

// SQLite checks the structure of its pages but not the bytes of a row. A flipped bit must not
// assign a context to another tenant or model.
std::string RecordChecksum(const ContextRecord& record, absl::string_view columns) {
  std::string text;
  for (const absl::string_view field :
       {absl::string_view(record.tenant), absl::string_view(record.name),
        absl::string_view(record.model), absl::string_view(record.digest),
        absl::string_view(record.target), columns}) {
    absl::StrAppend(&text, field.size(), ":", field);
  }
  absl::StrAppend(&text, record.rows, ":", record.dataset_bytes, ":",
                  absl::ToUnixNanos(record.created));
  return ContentDigest(text);
}

StoredContext CopyRow(const SqliteStatement& row) {
  StoredContext stored;
  ContextRecord& record = stored.record;
  record.tenant = row.Text(0);
  record.name = row.Text(1);
  record.model = row.Text(2);
  record.digest = row.Text(3);
  record.target = row.Text(4);
  stored.json = row.Text(5);
  record.rows = row.Integer(6);
  record.created = absl::FromUnixNanos(row.Integer(7));
  record.dataset_bytes = row.Integer(8);
  stored.checksum = row.Text(9);
  return stored;
}

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

int64_t StoredContext::bytes() const {
  // For the numbers, and for the parts that a message adds to names: "contexts/", tags, lengths.
  constexpr int64_t kOthers = 256;
  return static_cast<int64_t>(record.tenant.size() + record.name.size() + record.model.size() +
                              record.digest.size() + record.target.size() + json.size() +
                              checksum.size() + summary.labels.size() +
                              summary.record.details.description.size()) +
         kOthers;
}

absl::StatusOr<ContextRecord> ParseContext(StoredContext stored, const std::string& path) {
  ContextRecord& record = stored.record;
  absl::Status status = ColumnsFromJson(stored.json, &record);
  if (status.ok() && stored.checksum != RecordChecksum(record, stored.json)) {
    status = absl::DataLossError("does not match its checksum");
  }
  absl::StatusOr<ContextRecord> summary = ParseSummary(std::move(stored.summary));
  status.Update(summary.status());
  if (status.ok() && summary->digest != record.digest) {
    status = absl::DataLossError("has the summary of other content");
  }
  if (!status.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": the record of context ",
                                            QuoteName(record.name), ": ", status.message()));
  }
  record.details = std::move(summary->details);
  record.updated = summary->updated;
  record.last_used = summary->last_used;
  return std::move(record);
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
                                  "PRAGMA secure_delete = ON;"));
  if (table->is_new_) {
    RETURN_IF_ERROR(table->CreateSchema());
  } else if (table->version_ == 1) {
    RETURN_IF_ERROR(table->AddSummaries());
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
  SqliteStatement query(*connection_, absl::StrCat(kSelect, "WHERE tenant = ? AND name = ?"));
  query.Bind(tenant);
  query.Bind(name);
  ASSIGN_OR_RETURN(bool row, query.Step());
  if (!row) return NoContext(name);
  StoredContext stored = CopyRow(query);
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
  SqliteStatement query(*connection_, kSelect);
  std::vector<ContextRecord> records;
  while (true) {
    ASSIGN_OR_RETURN(bool row, query.Step());
    if (!row) return records;
    StoredContext stored = CopyRow(query);
    // A damaged list of columns is reported when the context is read.
    ColumnsFromJson(stored.json, &stored.record).IgnoreError();
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
  context.Bind(RecordChecksum(record, columns));
  RETURN_IF_ERROR(context.Run());
  return WriteSummary(*connection_, record);
}

absl::Status ContextTable::Insert(const ContextRecord& record) {
  ASSIGN_OR_RETURN(std::string columns, ColumnsToJson(record));
  const std::string& path = connection_->path();

  SqliteTransaction transaction(*connection_);
  if (const int error = AtFailpoint("put_begin")) return FileError(error, "write", path);
  RETURN_IF_ERROR(transaction.Begin());
  if (const int error = AtFailpoint("put_insert")) return FileError(error, "write", path);
  RETURN_IF_ERROR(InsertRows(record, columns));
  if (const int error = AtFailpoint("put_commit")) return FileError(error, "write", path);
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
  const std::string& path = connection_->path();
  SqliteTransaction transaction(*connection_);
  if (const int error = AtFailpoint("delete_begin")) return FileError(error, "write", path);
  RETURN_IF_ERROR(transaction.Begin());
  RETURN_IF_ERROR(RemoveRows(tenant, name));
  if (const int error = AtFailpoint("delete_commit")) return FileError(error, "write", path);
  return transaction.Commit();
}

absl::StatusOr<bool> ContextTable::Names(const std::string& tenant, const std::string& digest) {
  SqliteStatement query(*connection_, "SELECT 1 FROM datasets WHERE tenant = ? AND digest = ?");
  query.Bind(tenant);
  query.Bind(digest);
  return query.Step();
}

absl::StatusOr<ContextTable::Page> ContextTable::List(const std::string& tenant,
                                                      const std::string& after, PageLimits limits) {
  SqliteStatement query(*connection_,
                        absl::StrCat(kSelect, "WHERE tenant = ? AND name > ? ORDER BY name"));
  query.Bind(tenant);
  query.Bind(after);
  Page page;
  int64_t bytes = 0;
  while (true) {
    ASSIGN_OR_RETURN(bool row, query.Step());
    page.last = !row;
    if (page.last || static_cast<int64_t>(page.contexts.size()) == limits.contexts) return page;
    StoredContext context = CopyRow(query);
    RETURN_IF_ERROR(AddSummary(&context));
    bytes += context.bytes();
    if (bytes > limits.bytes && !page.contexts.empty()) return page;
    page.contexts.push_back(std::move(context));
  }
}

absl::StatusOr<std::vector<ContextSummary>> ContextTable::ListNewest(int64_t count) {
  SqliteStatement query(*connection_,
                        "SELECT tenant, name, model, rows FROM contexts"
                        " ORDER BY created_ns DESC, tenant, name LIMIT ?");
  query.Bind(count);
  std::vector<ContextSummary> contexts;
  while (true) {
    ASSIGN_OR_RETURN(bool row, query.Step());
    if (!row) return contexts;
    contexts.push_back({query.Text(0), query.Text(1), query.Text(2), query.Integer(3)});
  }
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
