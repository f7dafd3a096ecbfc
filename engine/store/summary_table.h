// The summaries of registered contexts in SQLite: everything except the columns.
#ifndef CHORALE_ENGINE_STORE_SUMMARY_TABLE_H_
#define CHORALE_ENGINE_STORE_SUMMARY_TABLE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/store/context_store.h"
#include "engine/store/sqlite_connection.h"
#include "engine/store/sqlite_statement.h"

namespace chorale {

// The schema of the table `summaries`, which has a row for each row of `contexts`. So a list of
// contexts reads neither their columns nor their datasets.
extern const char kSummarySchema[];

// The columns of a row of `summaries`, in the order of SummaryRow.
extern const char kSummaryColumns[];

// A row of `summaries` as it is in the database, neither parsed nor checked.
struct SummaryRow {
  ContextRecord record;  // without columns, season_transform and labels
  std::string labels;    // JSON
  std::string checksum;
};

// Copies a row. `first`: the index of the first column of kSummaryColumns.
SummaryRow CopySummary(const SqliteStatement& row, int first);

// Parses a row. Returns DataLoss if it is damaged.
absl::StatusOr<ContextRecord> ParseSummary(SummaryRow row);

// Inserts the summary of a record, or replaces it. Not thread-safe, and not a transaction of its
// own. REQUIRES: the row of the context exists.
absl::Status WriteSummary(SqliteConnection& connection, const ContextRecord& record);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_SUMMARY_TABLE_H_
