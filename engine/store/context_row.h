// Rows of registered contexts in SQLite.
#ifndef CHORALE_ENGINE_STORE_CONTEXT_ROW_H_
#define CHORALE_ENGINE_STORE_CONTEXT_ROW_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/context_store.h"
#include "engine/store/sqlite_statement.h"
#include "engine/store/summary_table.h"

namespace chorale {

// A record as stored in the database. `json`, about 100 bytes per column, is neither parsed nor
// checked.
struct StoredContext {
  ContextRecord record;  // without the fields that ColumnsFromJson and ParseSummary fill
  std::string json;
  std::string checksum;
  SummaryRow summary;

  // The size that counts towards PageLimits::bytes.
  int64_t bytes() const;
};

// Selects rows for CopyContext.
extern const char kSelectContexts[];

// Copies a row, without the summary.
StoredContext CopyContext(const SqliteStatement& row);

// SQLite checks the structure of its pages but not the bytes of a row. A flipped bit must not
// assign a context to another tenant or model.
std::string ContextChecksum(const ContextRecord& record, absl::string_view columns);

// Parses a stored record. Returns DataLoss, with the path of the database, if it is damaged.
absl::StatusOr<ContextRecord> ParseContext(StoredContext stored, const std::string& path);

// The error for a record of the database at `path` that is damaged.
absl::Status DamagedContext(const std::string& path, const std::string& name,
                            const absl::Status& damage);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_ROW_H_
