// ValidateDataset: the requirements on every registered dataset.
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/data/column_validation.h"
#include "engine/data/dataset_codec.h"

namespace chorale {
namespace {

constexpr absl::string_view kTable = "rows";

absl::Status ValidateShape(const Dataset& dataset, const Limits& limits) {
  const int64_t features = static_cast<int64_t>(dataset.features.columns.size());
  if (features == 0) {
    return InvalidField("rows.columns",
                        "needs at least one feature column in addition to the target column");
  }
  if (features > limits.max_features) {
    return LimitExceeded(
        "rows.columns",
        absl::StrCat("has ", features, " feature columns; the limit is ", limits.max_features));
  }
  const int64_t rows = static_cast<int64_t>(dataset.y.size());
  if (rows == 0) return InvalidField(kTable, "needs at least one row");
  if (rows > limits.max_context_rows) {
    return LimitExceeded(
        kTable, absl::StrCat("has ", rows, " rows; the limit is ", limits.max_context_rows));
  }
  return absl::OkStatus();
}

absl::Status ValidateTarget(const Dataset& dataset, const Limits& limits) {
  RETURN_IF_ERROR(ValidateColumnName("target_column", dataset.target, limits));
  if (dataset.features.Find(dataset.target) >= 0) {
    return InvalidField("target_column", absl::StrCat(QuoteName(dataset.target),
                                                      " is also the name of a feature column"));
  }
  for (size_t row = 0; row < dataset.y.size(); ++row) {
    if (!std::isfinite(dataset.y[row])) {
      return InvalidField(
          NumericCellPath(kTable, dataset.target, static_cast<int64_t>(row)),
          "is missing or infinite; the target column must have a finite number in each row");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateMemory(const MemorySet& memory) {
  if (memory.rows == 0) {
    return memory.policy == MemoryPolicy::kMerge
               ? absl::OkStatus()
               : InvalidField("memory_policy", "requires memory_row_count");
  }
  if (memory.rows < kLeastMemoryRows) {
    return InvalidField(
        "memory_row_count",
        absl::StrCat("is ", memory.rows, "; must be 0, or at least ", kLeastMemoryRows));
  }
  if (MemoryPolicyName(memory.policy)[0] == '\0') {
    return InvalidField("memory_policy", absl::StrCat("is ", static_cast<int>(memory.policy),
                                                      ", which is not a known value"));
  }
  return absl::OkStatus();
}

absl::Status ValidateAppends(const Dataset& dataset) {
  const std::vector<int64_t>& starts = dataset.append_starts;
  if (starts.empty()) return absl::OkStatus();
  if (std::ssize(starts) > kMostAppends) {
    return LimitExceeded(
        kTable, absl::StrCat("were appended in ", starts.size(), " parts; the limit is ",
                             kMostAppends, ": encode the context anew, then append further rows"));
  }
  const auto rows = static_cast<int64_t>(dataset.y.size());
  int64_t before = 0;
  for (const int64_t start : starts) {
    if (start <= before || start >= rows) {
      return InvalidField("append_starts", absl::StrCat("contains ", start, " after ", before,
                                                        "; must be ascending, from 1 to ", rows - 1,
                                                        ", as there are ", rows, " rows"));
    }
    before = start;
  }
  if (!ContextShape{.rows = rows, .memory = dataset.memory}.appendable()) {
    return InvalidField(kTable,
                        absl::StrCat("cannot be appended to a context that is reduced to a memory "
                                     "set with the policy ",
                                     MemoryPolicyName(dataset.memory.policy)));
  }
  return absl::OkStatus();
}

// The size of the cells and strings, a lower bound of the encoded size: a dataset that is certainly
// too large is rejected before it is encoded. Cannot overflow, because the data are in memory.
int64_t PayloadBytes(const Dataset& dataset) {
  uint64_t bytes = dataset.y.size() * sizeof(double);
  for (const Column& column : dataset.features.columns) {
    bytes += column.name.size() + column.numbers.size() * sizeof(double) +
             column.codes.size() * sizeof(int32_t);
    for (const std::string& category : column.categories) bytes += category.size();
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

absl::Status ValidateDataset(const Dataset& dataset, const Limits& limits) {
  RETURN_IF_ERROR(ValidateShape(dataset, limits));
  RETURN_IF_ERROR(ValidateMemory(dataset.memory));
  RETURN_IF_ERROR(ValidateAppends(dataset));
  if (const int64_t bytes = PayloadBytes(dataset); bytes > limits.max_dataset_bytes) {
    return LimitExceeded(kTable, absl::StrCat("holds ", bytes, " bytes of data; the limit is ",
                                              limits.max_dataset_bytes));
  }
  RETURN_IF_ERROR(ValidateColumnNames(kTable, dataset.features, limits));
  RETURN_IF_ERROR(ValidateTarget(dataset, limits));
  const int64_t rows = static_cast<int64_t>(dataset.y.size());
  for (const Column& column : dataset.features.columns) {
    RETURN_IF_ERROR(ValidateColumnCells(kTable, column, rows, limits));
  }
  return absl::OkStatus();
}

}  // namespace chorale
