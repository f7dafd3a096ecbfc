// The functions of ContextTable for replacements and for details of contexts, and the migrations of
// databases of earlier versions.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/store/column_info_json.h"
#include "engine/store/context_table.h"
#include "engine/store/sqlite_transaction.h"

namespace chorale {

absl::StatusOr<SummaryRow> ContextTable::ReadSummary(const std::string& tenant,
                                                     const std::string& name) {
  SqliteStatement query(
      *connection_,
      absl::StrCat("SELECT ", kSummaryColumns, " FROM summaries WHERE tenant = ? AND name = ?"));
  query.Bind(tenant);
  query.Bind(name);
  ASSIGN_OR_RETURN(bool row, query.Step());
  if (!row) return NoContext(name);
  return CopySummary(query, 0);
}

absl::StatusOr<ContextRecord> ContextTable::FindSummary(const std::string& tenant,
                                                        const std::string& name) {
  ASSIGN_OR_RETURN(SummaryRow row, ReadSummary(tenant, name));
  return ParseSummary(std::move(row));
}

absl::Status ContextTable::Replace(const ContextRecord& record) {
  ASSIGN_OR_RETURN(std::string columns, ColumnsToJson(record));
  SqliteTransaction transaction(*connection_);
  RETURN_IF_ERROR(transaction.Begin());
  RETURN_IF_ERROR(RemoveRows(record.tenant, record.name));
  RETURN_IF_ERROR(InsertRows(record, columns));
  return transaction.Commit();
}

absl::StatusOr<int64_t> ContextTable::BytesOfOwnDataset(const std::string& tenant,
                                                        const std::string& name) {
  SqliteStatement query(*connection_,
                        "SELECT bytes FROM contexts JOIN datasets USING (tenant, digest)"
                        " WHERE tenant = ?1 AND name = ?2 AND NOT EXISTS"
                        " (SELECT 1 FROM contexts AS other WHERE other.tenant = contexts.tenant"
                        " AND other.digest = contexts.digest AND other.name <> contexts.name)");
  query.Bind(tenant);
  query.Bind(name);
  ASSIGN_OR_RETURN(bool row, query.Step());
  return row ? query.Integer(0) : 0;
}

absl::Status ContextTable::UpdateDetails(const std::string& tenant, const std::string& name,
                                         const ContextDetails& details, absl::Time updated) {
  SqliteTransaction transaction(*connection_);
  RETURN_IF_ERROR(transaction.Begin());
  ASSIGN_OR_RETURN(ContextRecord summary, FindSummary(tenant, name));
  summary.details = details;
  summary.updated = updated;
  RETURN_IF_ERROR(WriteSummary(*connection_, summary));
  return transaction.Commit();
}

absl::Status ContextTable::NoteUses(const std::vector<ContextUse>& uses) {
  SqliteTransaction transaction(*connection_);
  RETURN_IF_ERROR(transaction.Begin());
  for (const ContextUse& use : uses) {
    absl::StatusOr<ContextRecord> summary = FindSummary(use.tenant, use.name);
    if (!summary.ok()) continue;  // deleted meanwhile, or damaged
    if (summary->last_used >= use.time) continue;
    summary->last_used = use.time;
    RETURN_IF_ERROR(WriteSummary(*connection_, *summary));
  }
  return transaction.Commit();
}

absl::Status ContextTable::AddSummaries() {
  SqliteTransaction transaction(*connection_);
  RETURN_IF_ERROR(transaction.Begin());
  RETURN_IF_ERROR(connection_->Execute(kSummarySchema));
  ASSIGN_OR_RETURN(std::vector<ContextRecord> records, AllWithoutDetails());
  for (ContextRecord& record : records) {
    record.updated = record.created;
    RETURN_IF_ERROR(WriteSummary(*connection_, record));
  }
  RETURN_IF_ERROR(connection_->Execute(absl::StrCat("PRAGMA user_version = ", kSchemaVersion)));
  return transaction.Commit();
}

absl::Status ContextTable::AddColumnsOfSummaries() {
  SqliteTransaction transaction(*connection_);
  RETURN_IF_ERROR(transaction.Begin());
  RETURN_IF_ERROR(
      connection_->Execute(absl::StrCat(version_ < 3 ? kAddMemoryColumns : "", kAddAppendedRows,
                                        "PRAGMA user_version = ", kSchemaVersion)));
  return transaction.Commit();
}

}  // namespace chorale
