// The columns of a context as the JSON text that a database keeps.
#ifndef CHORALE_ENGINE_STORE_COLUMN_INFO_JSON_H_
#define CHORALE_ENGINE_STORE_COLUMN_INFO_JSON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/context_store.h"

namespace chorale {

// What a record says of its columns:
// [{"name": "age", "type": "numeric", "categories": 0, "missing": 3, "outside_bulk": 1,
//   "left_out": false, "meaning": "date"}, ...], where "meaning" is absent for plain numbers and
// categories, and the first has "far_targets", too, if there are any: earlier
// versions ignore a key that they do not know. InvalidArgument when a name is not valid UTF-8.
absl::StatusOr<std::string> ColumnsToJson(const ContextRecord& record);

// Fills `columns` and `far_targets` of the record. What follows "missing" may be absent. DataLoss
// for anything else.
absl::Status ColumnsFromJson(absl::string_view json, ContextRecord* record);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_COLUMN_INFO_JSON_H_
