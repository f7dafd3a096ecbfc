// The summaries of registered contexts in SQLite: everything except the columns.
#ifndef CHORALE_ENGINE_STORE_SUMMARY_TABLE_H_
#define CHORALE_ENGINE_STORE_SUMMARY_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/store/context_store.h"
#include "engine/store/sqlite_connection.h"
#include "engine/store/sqlite_statement.h"

namespace chorale {

// The schema of the table `summaries`, which has a row for each row of `contexts`. So a list of
// contexts reads neither their columns nor their datasets.
extern const char kSummarySchema[];

// Adds the columns that version 2 of the database lacks.
extern const char kAddMemoryColumns[];

// Adds the column that version 3 of the database lacks.
extern const char kAddAppendedRows[];

// The columns of a row of `summaries`, in the order of CopySummary, for a SELECT.
extern const char kSummaryColumns[];

// Returns a time as it is stored: nanoseconds since the Unix epoch, the greatest integer for
// InfiniteFuture, and the least for InfinitePast. Other times beyond its range are in between.
int64_t StoredTime(absl::Time time);

// A row of `summaries` as it is in the database, neither parsed nor checked.
struct SummaryRow {
  ContextRecord record;  // without columns, season_transform and labels
  std::string labels;    // JSON
  std::string checksum;

  // The size that counts towards PageLimits::bytes.
  int64_t bytes() const;
};

// Copies a row. `first`: the index of the first column of kSummaryColumns.
SummaryRow CopySummary(const SqliteStatement& row, int first);

// Parses a row. Returns DataLoss if it is damaged.
absl::StatusOr<ContextRecord> ParseSummary(SummaryRow row);

// Inserts the summary of a record, with its feature_count, or replaces it. Not thread-safe, and not
// a transaction of its own. REQUIRES: the row of the context exists.
absl::Status WriteSummary(SqliteConnection& connection, const ContextRecord& record);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_SUMMARY_TABLE_H_
