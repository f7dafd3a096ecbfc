// The functions of SqliteContextStore for details and uses of contexts.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/sqlite_context_store.h"

namespace chorale {

std::string EtagOf(const ContextRecord& record) {
  constexpr size_t kDigits = 32;
  std::string text = absl::StrCat(
      record.digest, ":", record.model, ":", absl::ToUnixNanos(record.created), ":",
      absl::ToUnixNanos(record.updated), ":", absl::ToUnixNanos(record.details.expires));
  for (const auto& [key, value] : record.details.labels) {
    absl::StrAppend(&text, ":", key.size(), ":", key, value.size(), ":", value);
  }
  absl::StrAppend(&text, ":", record.details.description);
  return ContentDigest(text).substr(0, kDigits);
}

absl::Status SqliteContextStore::UpdateDetails(const std::string& tenant, const std::string& name,
                                               const ContextDetails& details, absl::Time updated) {
  RETURN_IF_ERROR(Health());
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckOpen());
    status = table_->UpdateDetails(tenant, name, details, updated);
  }
  if (!status.ok()) return ForCaller(status);
  return Health();
}

absl::Status SqliteContextStore::NoteUses(const std::vector<ContextUse>& uses) {
  if (uses.empty()) return absl::OkStatus();
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  return table_->NoteUses(uses);
}

absl::StatusOr<std::vector<ContextKey>> SqliteContextStore::ListExpired(absl::Time now,
                                                                        int64_t limit) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  return table_->ListExpired(now, limit);
}

}  // namespace chorale
