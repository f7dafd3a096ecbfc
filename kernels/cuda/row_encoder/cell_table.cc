#include "kernels/cuda/row_encoder/cell_table.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateCellTable(const CellTable& table) {
  if (absl::Status s =
          RequireNotNull({{"values", table.values}, {"categorical", table.categorical}});
      !s.ok()) {
    return s;
  }
  RETURN_IF_ERROR(RequirePositive({{"rows", table.rows}}));
  return ValidateColumns(table.columns);
}

absl::Status ValidateCellShape(const CellShape& shape) {
  if (shape.width < 8 || shape.width % 8 != 0 || shape.width > kCellWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat("width is ", shape.width, ", must be a multiple of 8 up to ", kCellWidth));
  }
  if (!(shape.epsilon >= 0) || !std::isfinite(shape.epsilon)) {
    return absl::InvalidArgumentError("epsilon must be finite and at least 0");
  }
  if (!(shape.score_scale > 0) || !std::isfinite(shape.score_scale)) {
    return absl::InvalidArgumentError("score_scale must be finite and above 0");
  }
  return absl::OkStatus();
}

absl::Status ValidateColumns(int32_t columns) {
  if (columns >= 1 && columns <= kMostColumns) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("columns is ", columns, ", must be 1 to ", kMostColumns));
}

}  // namespace chorale::kernels::cuda
