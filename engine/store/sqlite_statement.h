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

// A statement is prepared, bound and executed, then destroyed, or reset for another execution:
//
//   SqliteStatement statement(connection, "SELECT rows FROM contexts WHERE name = ?");
//   statement.Bind(name);
//   absl::StatusOr<bool> row = statement.Step();
//
// Step returns an error of the constructor or of Bind, so that only Step needs checking. Statements
// here precede or follow an fsync, so a cache of prepared statements would not pay off. Not
// thread-safe. REQUIRES: the connection outlives the statement.
class SqliteStatement {
 public:
  SqliteStatement(SqliteConnection& connection, absl::string_view sql);
  ~SqliteStatement();
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  // Binds the next parameter.
  void Bind(absl::string_view text);
  void Bind(int64_t number);

  // Returns true if there is a row, which the accessors below read, and false at the end.
  absl::StatusOr<bool> Step();
  // Executes a statement that yields no rows.
  absl::Status Run();
  // Ends the execution. The parameters must then be bound again.
  void Reset();

  // Column `i` of the current row, converted as SQLite does. REQUIRES: Step() returned true.
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
