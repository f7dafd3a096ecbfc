// An open SQLite database. Converts SQLite's results to absl::Status.
#ifndef CHORALE_ENGINE_STORE_SQLITE_CONNECTION_H_
#define CHORALE_ENGINE_STORE_SQLITE_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;

namespace chorale {

// Owns the connection. Not thread-safe: the owner serialises all use of the connection and its
// statements.
class SqliteConnection {
 public:
  // Opens `path`, and creates an empty database if there is none.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path);
  // Opens an existing database read-only, without any change to its files. The content of a log is
  // not visible. Another process may use the database; while it writes to the database file itself,
  // reads may be torn.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenUnchanged(const std::string& path);
  ~SqliteConnection();
  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;

  // Runs one or more statements and ignores their rows.
  absl::Status Execute(const std::string& sql);

  // Moves the content of the write-ahead log into the database and truncates the log to zero bytes.
  // Returns false without waiting if another process uses the log.
  absl::StatusOr<bool> EmptyLog();

  // The error of the last call, with the path:
  //   DataLoss            corrupt, truncated, or not a database
  //   ResourceExhausted   the disk is full
  //   FailedPrecondition  cannot be opened or written; locked by another process
  //   Internal            everything else
  absl::Status Error(absl::string_view action) const;

  sqlite3* get() const { return handle_; }
  const std::string& path() const { return path_; }

 private:
  // `name` is the path, or a URI with parameters.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenAs(const std::string& path,
                                                                  const std::string& name,
                                                                  int flags);
  SqliteConnection(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}
  int SystemError(int extended) const;

  const std::string path_;
  sqlite3* const handle_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_SQLITE_CONNECTION_H_
