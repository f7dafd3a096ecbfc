// The columns of a context as the JSON text that a database keeps.
#ifndef CHORALE_ENGINE_STORE_COLUMN_INFO_JSON_H_
#define CHORALE_ENGINE_STORE_COLUMN_INFO_JSON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/context_store.h"

namespace chorale {

// [{"name": "age", "type": "numeric", "categories": 0, "missing": 3, "outside_bulk": 1,
//   "left_out": false}, ...]. InvalidArgument when a name is not valid UTF-8.
absl::StatusOr<std::string> ColumnInfosToJson(const std::vector<ColumnInfo>& columns);

// The last two may be absent. DataLoss for anything else.
absl::StatusOr<std::vector<ColumnInfo>> ColumnInfosFromJson(absl::string_view json);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_COLUMN_INFO_JSON_H_
