// Matches the targets of a request with the feature columns of its context.
#ifndef CHORALE_ENGINE_DATA_TARGET_COLUMNS_H_
#define CHORALE_ENGINE_DATA_TARGET_COLUMNS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/data/table.h"

namespace chorale {

// What the public API calls a request's table; errors begin with it.
inline constexpr absl::string_view kTargetTable = "targets";

struct FeatureColumn {
  absl::string_view name;
  ColumnType type = ColumnType::kNumeric;
  bool left_out = false;  // it says nothing: whatever type a request has there is right
};

// The columns of `targets` in the context's order. They are matched by name, in any order, where
// names that look equal are equal (base/normal_text.h); missing
// and extra columns are refused, and so is a table without rows and a column of the wrong type, of
// another length, with infinities or with codes out of range. InvalidArgument names the column and
// what is expected.
absl::StatusOr<std::vector<const Column*>> MatchTargets(absl::Span<const FeatureColumn> context,
                                                        const Table& targets);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TARGET_COLUMNS_H_
