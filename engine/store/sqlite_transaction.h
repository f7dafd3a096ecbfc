// A transaction of an SQLite database.
#ifndef CHORALE_ENGINE_STORE_SQLITE_TRANSACTION_H_
#define CHORALE_ENGINE_STORE_SQLITE_TRANSACTION_H_

#include "absl/status/status.h"
#include "engine/store/sqlite_connection.h"

namespace chorale {

// Rolls back unless committed. Not thread-safe. REQUIRES: the connection outlives the transaction.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(SqliteConnection& connection) : connection_(connection) {}
  ~SqliteTransaction() {
    // Fails if SQLite has already rolled back, as on a full disk.
    if (begun_ && !committed_) connection_.Execute("ROLLBACK").IgnoreError();
  }
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;

  absl::Status Begin() {
    absl::Status status = connection_.Execute("BEGIN IMMEDIATE");
    begun_ = status.ok();
    return status;
  }
  absl::Status Commit() {
    absl::Status status = connection_.Execute("COMMIT");
    committed_ = status.ok();
    return status;
  }

 private:
  SqliteConnection& connection_;
  bool begun_ = false;
  bool committed_ = false;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_SQLITE_TRANSACTION_H_
