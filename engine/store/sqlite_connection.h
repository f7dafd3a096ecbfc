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

// Owns the connection. Not thread-safe: its owner serialises all use, also of its statements.
class SqliteConnection {
 public:
  // Opens `path`, creating an empty database where there is none.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path);
  // Opens a database that is there, only to read, and changes nothing, also of the files beside it:
  // what a log holds is not seen. Another process may use the database; while it writes to the file
  // itself, what is read may be torn.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenUnchanged(const std::string& path);
  ~SqliteConnection();
  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;

  // Runs one or more statements that yield no rows of interest.
  absl::Status Execute(const std::string& sql);

  // Moves what the write-ahead log holds into the database and cuts the log to length zero. False,
  // at once, when another process uses it.
  absl::StatusOr<bool> EmptyLog();

  // Why the last call failed, with the file's name:
  //   DataLoss            corrupt, cut short, or no database
  //   ResourceExhausted   the disk is full
  //   FailedPrecondition  cannot be opened or written; locked by another process
  //   Internal            everything else
  absl::Status Error(absl::string_view action) const;

  sqlite3* get() const { return handle_; }
  const std::string& path() const { return path_; }

 private:
  // `name` is the path, or an address with parameters.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenAs(const std::string& path,
                                                                  const std::string& name,
                                                                  int flags);
  SqliteConnection(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}

  const std::string path_;
  sqlite3* const handle_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_SQLITE_CONNECTION_H_
