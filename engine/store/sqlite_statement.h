// A prepared SQL statement.
#ifndef CHORALE_ENGINE_STORE_SQLITE_STATEMENT_H_
#define CHORALE_ENGINE_STORE_SQLITE_STATEMENT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/sqlite_connection.h"

struct sqlite3_stmt;

namespace chorale {

// Prepared, bound and stepped once, then dropped:
//
//   SqliteStatement statement(connection, "SELECT rows FROM contexts WHERE name = ?");
//   statement.Bind(name);
//   absl::StatusOr<bool> row = statement.Step();
//
// An error of the constructor or of Bind comes out of Step, so that only Step needs checking.
// Statements here run next to an fsync, so caching prepared ones would not pay. Not thread-safe;
// the connection outlives it.
class SqliteStatement {
 public:
  SqliteStatement(SqliteConnection& connection, absl::string_view sql);
  ~SqliteStatement();
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  // Bind the next parameter.
  void Bind(absl::string_view text);
  void Bind(int64_t number);

  // True: there is a row, and the accessors below read it. False: done.
  absl::StatusOr<bool> Step();
  // For statements that yield no row.
  absl::Status Run();

  // Column `i` of the current row, converted as SQLite does. REQUIRES: Step() gave true.
  std::string Text(int i) const;
  int64_t Integer(int i) const;

 private:
  void KeepError(int result);

  SqliteConnection& connection_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  absl::Status error_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_SQLITE_STATEMENT_H_
