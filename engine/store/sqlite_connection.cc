#include "engine/store/sqlite_connection.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "engine/store/posix_file.h"

namespace chorale {
namespace {

// A backup tool may lock the database for a moment.
constexpr int kBusyMilliseconds = 5000;

constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kOthers = 0077;

// A commit whose fsync failed is never taken for one that found no space: it may prove to be
// durable.
bool DiskFull(int extended, int system_error) {
  const int primary = extended & 0xFF;
  return primary == SQLITE_FULL || (primary == SQLITE_IOERR && extended != SQLITE_IOERR_FSYNC &&
                                    (system_error == ENOSPC || system_error == EDQUOT));
}

absl::StatusCode CodeOf(int extended, int system_error) {
  if (DiskFull(extended, system_error)) return absl::StatusCode::kResourceExhausted;
  if (extended == SQLITE_IOERR_SHORT_READ || extended == SQLITE_IOERR_CORRUPTFS) {
    return absl::StatusCode::kDataLoss;
  }
  switch (extended & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
      return absl::StatusCode::kDataLoss;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_AUTH:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Restricts the database and its auxiliary files to their owner, like the datasets, because the
// database contains names of contexts and columns. SQLite creates further files with the same mode.
// Does not open existing files: closing them would release the locks of other connections.
void RestrictToOwner(const std::string& path) {
  const int created = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly);
  if (created >= 0) {
    close(created);
    return;
  }
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const std::string file = path + suffix;
    struct stat info = {};
    const bool open_to_others =
        lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & kOthers) != 0;
    // Fails for another user's file, which SQLite may still be able to use.
    if (open_to_others) (void)chmod(file.c_str(), info.st_mode & kOwnerOnly);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::Open(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  RETURN_IF_ERROR(RefuseLinks(error ? path : whole.string()));
  RestrictToOwner(path);
  return OpenAs(path, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::OpenUnchanged(
    const std::string& path) {
  // Characters with a meaning in a file URI.
  const std::string escaped = absl::StrReplaceAll(path, {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}});
  return OpenAs(path, absl::StrCat("file:", escaped, "?immutable=1"),
                SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::OpenAs(const std::string& path,
                                                                           const std::string& name,
                                                                           int flags) {
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(name.c_str(), &handle,
                                     flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, nullptr);
  if (handle == nullptr) return absl::InternalError(absl::StrCat(path, ": out of memory"));
  std::unique_ptr<SqliteConnection> connection(new SqliteConnection(path, handle));
  if (result != SQLITE_OK) return connection->Error("open");
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  // Defences against a malicious or damaged file.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return connection;
}

SqliteConnection::~SqliteConnection() { sqlite3_close_v2(handle_); }

absl::Status SqliteConnection::Execute(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return Error(sql.substr(0, sql.find_first_of(" ;\n")));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SqliteConnection::EmptyLog() {
  sqlite3_busy_timeout(handle_, 0);
  const int result =
      sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  absl::Status status = result == SQLITE_OK ? absl::OkStatus() : Error("emptying the log");
  sqlite3_busy_timeout(handle_, kBusyMilliseconds);
  if (result == SQLITE_BUSY) return false;
  RETURN_IF_ERROR(status);
  return true;
}

// The errno of an error with this result. SQLite stores it for each file, and for the connection
// only the last errno of all, which may come from a later call.
int SqliteConnection::SystemError(int extended) const {
  sqlite3_file* log = nullptr;
  int error = sqlite3_system_errno(handle_);
  if (extended == SQLITE_IOERR_WRITE &&
      sqlite3_file_control(handle_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK &&
      log != nullptr && log->pMethods != nullptr) {
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  return error;
}

absl::Status SqliteConnection::Error(absl::string_view action) const {
  const int extended = sqlite3_extended_errcode(handle_);
  return absl::Status(CodeOf(extended, SystemError(extended)),
                      absl::StrCat(path_, ": ", action, " failed: ", sqlite3_errmsg(handle_),
                                   " (SQLite result ", extended, ")"));
}

}  // namespace chorale
