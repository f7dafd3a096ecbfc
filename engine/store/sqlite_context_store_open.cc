// The opening of the store, its health and its closing.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/store/sqlite_context_store.h"
#include "spdlog/spdlog.h"

namespace chorale {

absl::StatusOr<std::unique_ptr<ContextStore>> OpenSqliteContextStore(const std::string& folder) {
  return SqliteContextStore::Open(folder);
}

absl::StatusOr<std::unique_ptr<ContextStore>> SqliteContextStore::Open(const std::string& folder) {
  RETURN_IF_ERROR(MakeFolder(folder));
  const StorePaths paths(folder);
  ASSIGN_OR_RETURN(FileDescriptor lock, LockFile(paths.lock));
  ASSIGN_OR_RETURN(FileDescriptor folder_lock, LockFolder(folder));
  auto room = std::make_unique<DiskRoom>(paths.reserve);
  RETURN_IF_ERROR(room->Open());
  // Free space for the writes of opening the store, so that a server starts on a full disk and can
  // delete contexts.
  std::optional<DiskRoom::ReleasedReserve> released;
  if (room->full()) released.emplace(*room);
  auto files = std::make_unique<DatasetFiles>(paths.datasets, paths.lost);
  RETURN_IF_ERROR(files->Open());
  ASSIGN_OR_RETURN(std::set<std::string> present, files->List());

  // A new database next to existing datasets means that the old database was lost. The server
  // refuses to continue, which would move all datasets to `lost`.
  ASSIGN_OR_RETURN(
      std::unique_ptr<ContextTable> table,
      ContextTable::Open(paths.database, present.empty() ? ContextTable::IfNew::kCreate
                                                         : ContextTable::IfNew::kRefuse));
  RETURN_IF_ERROR(SyncFolder(folder));
  released.reset();

  std::unique_ptr<SqliteContextStore> store(
      new SqliteContextStore(paths, {std::move(lock), std::move(folder_lock)}, std::move(room),
                             std::move(table), std::move(files)));
  RETURN_IF_ERROR(store->MatchFiles(std::move(present)));
  return store;
}

absl::Status SqliteContextStore::MatchFiles(std::set<std::string> files) {
  MutexLock lock(&mutex_);
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> named = table_->AllDatasets();
  RETURN_IF_ERROR(named.status());

  for (const auto& [tenant, digest] : *named) {
    const std::string key = DatasetKey(tenant, digest);
    if (files.erase(key) > 0) {
      RETURN_IF_ERROR(files_->ForgetLost(key));
      continue;
    }
    ASSIGN_OR_RETURN(const bool taken_back, files_->TakeBack(key));
    if (taken_back) {
      spdlog::info(
          "the server restored the dataset file {} from the folder lost, because a context refers "
          "to it",
          key);
      continue;
    }
    // Serve the other contexts. Reading this context returns DataLoss, and a new registration
    // repairs it.
    spdlog::error("the dataset {} of tenant {} is missing; the server cannot read its contexts",
                  digest, QuoteName(tenant));
  }
  for (const std::string& key : files) {
    RETURN_IF_ERROR(files_->SetAside(key));
  }
  if (!files.empty()) {
    spdlog::warn(
        "the server moved {} dataset file(s) without a context to the folder lost, first {}. An "
        "aborted call leaves a single file; many files mean that the database has lost contexts. "
        "If you restore a database with these contexts, the server restores the files.",
        files.size(), *files.begin());
  }
  ASSIGN_OR_RETURN(const DatasetFiles::Lost lost, files_->CountLost());
  if (lost.files > 0) {
    spdlog::warn(
        "the folder lost contains {} dataset file(s) of {} bytes; remove the files that you do not "
        "need",
        lost.files, lost.bytes);
  }
  return absl::OkStatus();
}

absl::Status SqliteContextStore::CheckOpen() const {
  return closing_ ? ClosedError() : absl::OkStatus();
}

absl::Status SqliteContextStore::Health() const {
  const auto gone = std::find_if(watched_.begin(), watched_.end(), [](const Watched& each) {
    return IdentityOf(each.path) != each.identity;
  });
  if (gone == watched_.end()) {
    if (!healthy_.exchange(true)) spdlog::info("the files of the store are in place again");
    return absl::OkStatus();
  }
  {
    MutexLock lock(&mutex_);
    if (closing_) return absl::OkStatus();  // SQLite removes its log
  }
  if (healthy_.exchange(false)) {
    spdlog::error(
        "{} was removed, moved or replaced while it is open: registrations and deletions fail. The "
        "registered contexts exist only in the open file, until this process ends.",
        gone->path);
  }
  return MakeError(
      ErrorReason::kStoreLost,
      "the server's context store was removed or replaced: registrations and deletions fail");
}

absl::Status SqliteContextStore::Close() {
  std::unique_ptr<RateLimitedTask> log_emptier;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    while (!pins_.empty()) unpinned_.Wait(&mutex_);
    log_emptier = std::move(log_emptier_);
  }
  log_emptier.reset();  // without the mutex, which its thread may wait for
  MutexLock lock(&mutex_);
  table_.reset();
  locks_.file.Reset();
  locks_.folder.Reset();
  return absl::OkStatus();
}

}  // namespace chorale
