// The functions of SqliteContextStore for replacements, and for checks of a Put.
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "engine/store/sqlite_context_store.h"

namespace chorale {

absl::StatusOr<PutOutcome> SqliteContextStore::CompareWithinQuota(const ContextRecord& record,
                                                                  const Terms& terms) {
  RETURN_IF_ERROR(CheckOpen());
  ASSIGN_OR_RETURN(const PutOutcome outcome, Compare(record, terms.replacement));
  if (outcome != PutOutcome::kUnchanged) {
    RETURN_IF_ERROR(CheckQuota(record, terms.quota, outcome));
  }
  return outcome;
}

absl::StatusOr<PutOutcome> SqliteContextStore::CheckPut(
    const ContextRecord& record, const StoreQuota& quota,
    const std::optional<Replacement>& replacement) {
  RETURN_IF_ERROR(Health());
  absl::StatusOr<PutOutcome> outcome;
  {
    MutexLock lock(&mutex_);
    outcome = CompareWithinQuota(record, {quota, replacement});
  }
  if (outcome.ok() && *outcome != PutOutcome::kUnchanged) {
    if (absl::Status room = room_->CheckRoom(); !room.ok()) outcome = std::move(room);
  }
  if (!outcome.ok()) return ForCaller(outcome.status());
  return outcome;
}

absl::Status SqliteContextStore::ReplaceRecord(ContextRecord record) {
  ASSIGN_OR_RETURN(const ContextRecord earlier, table_->Find(record.tenant, record.name));
  record.created = earlier.created;
  record.last_used = earlier.last_used;
  RETURN_IF_ERROR(table_->Replace(record));
  // The old context is gone: an error from here on would be wrong.
  RemoveUnneeded({earlier.tenant, earlier.digest});
  log_emptier_->Ask();
  return absl::OkStatus();
}

}  // namespace chorale
