// The functions of SqliteContextStore for deletions, also on a full disk.
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "engine/store/sqlite_context_store.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

constexpr int kAttemptsOnFullDisk = 5;
constexpr absl::Duration kPauseOnFullDisk = absl::Milliseconds(20);

}  // namespace

absl::Status SqliteContextStore::Delete(const std::string& tenant, const std::string& name) {
  RETURN_IF_ERROR(Health());
  absl::Status deleted;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckOpen());
    deleted = Remove(tenant, name);
  }
  if (!deleted.ok()) return ForCaller(deleted);
  room_->CheckRoom().IgnoreError();  // allocates the reserve again
  return Health();
}

absl::Status SqliteContextStore::Remove(const std::string& tenant, const std::string& name) {
  absl::StatusOr<ContextRecord> record = table_->Find(tenant, name);
  if (absl::IsNotFound(record.status())) return NoContext(name);
  // A record that cannot be read can be deleted nevertheless; the next Open moves its dataset to
  // `lost`.
  absl::Status removed = table_->Remove(tenant, name);
  if (absl::IsResourceExhausted(removed)) removed = RemoveOnFullDisk(tenant, name, removed);
  RETURN_IF_ERROR(removed);
  if (record.ok()) RemoveUnneeded({tenant, record->digest});
  if (room_->full()) EmptyLogOnFullDisk();
  log_emptier_->Ask();
  return absl::OkStatus();
}

absl::Status SqliteContextStore::RemoveOnFullDisk(const std::string& tenant,
                                                  const std::string& name, absl::Status failure) {
  // Registrations that began before the disk was full may use the released space. They fail soon,
  // and remove the files that they wrote.
  for (int attempt = 0; absl::IsResourceExhausted(failure); ++attempt) {
    if (attempt == kAttemptsOnFullDisk) return failure;
    if (attempt > 0) absl::SleepFor(kPauseOnFullDisk);
    room_->Full(failure).IgnoreError();
    const DiskRoom::ReleasedReserve released(*room_);
    failure = table_->Remove(tenant, name);
  }
  return failure;
}

void SqliteContextStore::EmptyLogOnFullDisk() {
  // Emptying the log writes to the database. Without space for that, the log would keep what
  // deletions free.
  const DiskRoom::ReleasedReserve released(*room_);
  if (absl::Status emptied = table_->EmptyLog().status(); !emptied.ok()) {
    spdlog::warn("the disk is full, and the log of the database cannot be emptied: {}",
                 emptied.ToString());
  }
}

bool SqliteContextStore::EmptyLog() {
  MutexLock lock(&mutex_);
  if (closing_) return true;
  const absl::StatusOr<bool> emptied = table_->EmptyLog();
  if (emptied.ok()) return *emptied;
  if (absl::IsResourceExhausted(emptied.status())) {
    // The next deletion empties the log with the help of the reserve. If the reserve were released
    // here, another process could take its space, and no context could be deleted.
    room_->Full(emptied.status()).IgnoreError();
    return false;
  }
  spdlog::warn(
      "the log of the database may contain names of deleted contexts until the next deletion: {}",
      emptied.status().ToString());
  return true;
}

}  // namespace chorale
