// The columns of a context as JSON text for the database.
#ifndef CHORALE_ENGINE_STORE_COLUMN_INFO_JSON_H_
#define CHORALE_ENGINE_STORE_COLUMN_INFO_JSON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/context_store.h"

namespace chorale {

// Serialises the columns of a record:
//   [{"name": "age", "type": "numeric", "categories": 0, "missing": 3, "outside_bulk": 1,
//     "left_out": false, "meaning": "date"}, ...]
// "meaning" is absent for plain numbers and categories. A column with a season also has
// "season_steps", and a column of dates "calendar", the names of its calendar features; the first
// column may also have "far_targets" and "season_transform" of the record. Earlier versions ignore
// unknown keys. Returns InvalidArgument if a name is not valid UTF-8.
absl::StatusOr<std::string> ColumnsToJson(const ContextRecord& record);

// Fills `columns`, `clipped_targets` and `season_transform` of the record. Members after "missing"
// may be absent. Returns DataLoss for any other deviation.
absl::Status ColumnsFromJson(absl::string_view json, ContextRecord* record);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_COLUMN_INFO_JSON_H_
