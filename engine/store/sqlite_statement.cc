#include "engine/store/sqlite_statement.h"

#include <sqlite3.h>

#include "base/status_macros.h"

namespace chorale {

SqliteStatement::SqliteStatement(SqliteConnection& connection, absl::string_view sql)
    : connection_(connection) {
  KeepError(sqlite3_prepare_v2(connection.get(), sql.data(), static_cast<int>(sql.size()),
                               &statement_, nullptr));
}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

void SqliteStatement::KeepError(int result) {
  if (result != SQLITE_OK && error_.ok()) error_ = connection_.Error("a query");
}

void SqliteStatement::Bind(absl::string_view text) {
  if (!error_.ok()) return;
  KeepError(sqlite3_bind_text64(statement_, ++bound_, text.data() == nullptr ? "" : text.data(),
                                text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void SqliteStatement::Bind(int64_t number) {
  if (!error_.ok()) return;
  KeepError(sqlite3_bind_int64(statement_, ++bound_, number));
}

absl::StatusOr<bool> SqliteStatement::Step() {
  RETURN_IF_ERROR(error_);
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return connection_.Error("a query");
}

absl::Status SqliteStatement::Run() { return Step().status(); }

void SqliteStatement::Reset() {
  sqlite3_reset(statement_);  // returns the error of the last Step, which the caller has
  bound_ = 0;
}

std::string SqliteStatement::Text(int i) const {
  // Read the text before its length: the call may convert the value, and the length refers to the
  // converted text.
  const unsigned char* text = sqlite3_column_text(statement_, i);
  if (text == nullptr) return "";
  return std::string(reinterpret_cast<const char*>(text),
                     static_cast<size_t>(sqlite3_column_bytes(statement_, i)));
}

int64_t SqliteStatement::Integer(int i) const { return sqlite3_column_int64(statement_, i); }

}  // namespace chorale
