// Records for tests of context stores.
#ifndef CHORALE_TESTS_ENGINE_STORE_MAKE_RECORD_H_
#define CHORALE_TESTS_ENGINE_STORE_MAKE_RECORD_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/context_store.h"

namespace chorale {

// Turns a database without memory sets and appended rows into one of version 1, which has no
// details and uses.
inline constexpr char kAsVersion1[] =
    "BEGIN;"
    "DROP TABLE summaries;"
    "PRAGMA user_version = 1;"
    "COMMIT;";

// Turns a database without memory sets and appended rows into one of version 2.
inline constexpr char kAsVersion2[] =
    "BEGIN;"
    "ALTER TABLE summaries DROP COLUMN appended_rows;"
    "ALTER TABLE summaries DROP COLUMN memory_rows;"
    "ALTER TABLE summaries DROP COLUMN memory_policy;"
    "PRAGMA user_version = 2;"
    "COMMIT;";

// Turns a database without appended rows into one of version 3.
inline constexpr char kAsVersion3[] =
    "BEGIN;"
    "ALTER TABLE summaries DROP COLUMN appended_rows;"
    "PRAGMA user_version = 3;"
    "COMMIT;";

inline ContextRecord MakeRecord(const std::string& tenant, const std::string& name,
                                absl::string_view dataset) {
  ContextRecord record;
  record.tenant = tenant;
  record.name = name;
  record.model = "some-model";
  record.digest = ContentDigest(dataset);
  record.target = "y";
  record.columns = {{"age", ColumnType::kNumeric, 0, 3, 2, false, 11.4},
                    {"day",
                     ColumnType::kNumeric,
                     0,
                     0,
                     0,
                     false,
                     0,
                     Meaning::kDate,
                     {CalendarFeature::kWeekday, CalendarFeature::kMonth}},
                    {"caf\u00e9 \"x\"", ColumnType::kCategorical, 7, 0, 0, true}};
  record.feature_count = 3;
  record.clipped_targets = 1;
  record.season_transform = "cells 6";
  record.rows = 42;
  record.dataset_bytes = static_cast<int64_t>(dataset.size());
  record.created = absl::FromUnixNanos(1'700'000'000'123'456'789);
  record.details = {
      "a caf\u00e9", {{"team", "\"x\""}}, absl::FromUnixNanos(1'900'000'000'000'000'001)};
  record.updated = record.created + absl::Seconds(1);
  return record;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_STORE_MAKE_RECORD_H_
