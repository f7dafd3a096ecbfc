// The functions of SqliteContextStore for replacements, and for checks of a Put.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/store/sqlite_context_store.h"

namespace chorale {

absl::StatusOr<PutOutcome> SqliteContextStore::Compare(
    const ContextRecord& record, const std::optional<Replacement>& replacement) {
  absl::StatusOr<ContextRecord> existing = table_->Find(record.tenant, record.name);
  const std::string etag = replacement.has_value() ? replacement->etag : "";
  if (absl::IsNotFound(existing.status())) {
    if (etag.empty()) return PutOutcome::kCreated;
    return MakeError(ErrorReason::kEtagMismatch,
                     absl::StrCat("no context ", QuoteName(record.name), " has this etag"));
  }
  RETURN_IF_ERROR(existing.status());
  const bool same = existing->digest == record.digest && existing->model == record.model;
  if (replacement.has_value() && !same) {
    if (etag.empty() || etag == EtagOf(*existing)) return PutOutcome::kReplaced;
    return MakeError(ErrorReason::kEtagMismatch,
                     absl::StrCat("context ", QuoteName(record.name), " has another etag"));
  }
  if (existing->digest != record.digest) {
    return MakeError(ErrorReason::kContextExists, absl::StrCat("the name ", QuoteName(record.name),
                                                               " is taken by other content"));
  }
  if (existing->model != record.model) {
    return MakeError(
        ErrorReason::kContextExists,
        absl::StrCat("the name ", QuoteName(record.name),
                     " is taken by the same content with the model ", QuoteName(existing->model)));
  }
  return PutOutcome::kUnchanged;
}

absl::Status SqliteContextStore::CheckQuota(const ContextRecord& record, const StoreQuota& quota,
                                            PutOutcome outcome) {
  if (quota.contexts == 0 && quota.dataset_bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(StoreTotals used, table_->TotalsOf(record.tenant));
  const bool replaces = outcome == PutOutcome::kReplaced;
  if (replaces) {
    ASSIGN_OR_RETURN(const int64_t freed, table_->BytesOfOwnDataset(record.tenant, record.name));
    // A replacement that needs no more than it frees is within any quota.
    if (record.dataset_bytes <= freed) return absl::OkStatus();
    used.dataset_bytes -= freed;
  }
  if (!replaces && quota.contexts > 0 && used.contexts >= quota.contexts) {
    return QuotaExceeded("max_contexts", absl::StrCat("the tenant has ", used.contexts,
                                                      " contexts; its quota is ", quota.contexts));
  }
  ASSIGN_OR_RETURN(const bool shared, table_->Names(record.tenant, record.digest));
  if (quota.dataset_bytes > 0 && !shared &&
      used.dataset_bytes + record.dataset_bytes > quota.dataset_bytes) {
    return QuotaExceeded("max_dataset_mib",
                         absl::StrCat("the datasets of the tenant have ", used.dataset_bytes,
                                      " bytes and this dataset has ", record.dataset_bytes,
                                      "; the tenant's quota is ", quota.dataset_bytes));
  }
  return absl::OkStatus();
}

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
