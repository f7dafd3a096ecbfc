// The client's table of named, typed columns.
#ifndef CHORALE_CLIENT_CPP_DATA_FRAME_H_
#define CHORALE_CLIENT_CPP_DATA_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace chorale::client {

// kStrings: the server infers whether the column is numeric or categorical, and parses the strings
// of query rows by the context's column.
enum class ColumnKind { kNumeric, kCategorical, kStrings };

// The meaning of the numbers of a column.
enum class Meaning {
  kNumber,
  kBoolean,   // 0 for false, 1 for true
  kDate,      // days since 1970-01-01 UTC, with the time of day as the fraction
  kDuration,  // days
};

// Returns "numeric", "boolean", "date" or "duration".
const char* MeaningName(Meaning meaning);

inline constexpr int32_t kMissingCategory = -1;

struct DataColumn {
  std::string name;
  ColumnKind kind = ColumnKind::kNumeric;
  Meaning meaning = Meaning::kNumber;   // if numeric
  std::vector<double> numbers;          // [rows] if numeric; NaN: missing
  std::vector<std::string> categories;  // if categorical; distinct and non-empty
  std::vector<int32_t> codes;           // [rows] if categorical: indices, or kMissingCategory
  std::vector<std::string> strings;     // [rows] if strings; empty: missing

  int64_t row_count() const;
  int64_t missing_count() const;  // without strings that are white space
};

// Columns of equal length with distinct names. Thread-compatible.
class DataFrame {
 public:
  // All Add methods return InvalidArgument, with the name of the column, if the name is empty or
  // exists, if the number of rows differs from that of the other columns, or if a condition below
  // is not met. The frame is then unchanged.

  // `values` [rows]: finite, or NaN for a missing cell; booleans are 0 or 1.
  absl::Status AddNumeric(std::string name, std::vector<double> values,
                          Meaning meaning = Meaning::kNumber);
  // `values` [rows]: nullopt is a missing cell; an empty string is invalid.
  absl::Status AddCategorical(std::string name,
                              const std::vector<std::optional<std::string>>& values);
  // `values` [rows]: nullopt, an empty string and white space are missing cells.
  absl::Status AddStrings(std::string name, std::vector<std::optional<std::string>> values);
  // `codes` [rows]: indices into `categories` (distinct, non-empty), or kMissingCategory.
  absl::Status AddCategorical(std::string name, std::vector<std::string> categories,
                              std::vector<int32_t> codes);

  const std::vector<DataColumn>& columns() const { return columns_; }
  int64_t row_count() const { return columns_.empty() ? 0 : columns_.front().row_count(); }
  // The column with this name, or null. The frame owns it.
  const DataColumn* Find(absl::string_view name) const;
  // Returns these rows. Requires 0 <= row < row_count() for each.
  DataFrame Take(absl::Span<const int64_t> rows) const;
  // Removes the columns with these names. Ignores unknown names.
  void Remove(absl::Span<const std::string> names);

 private:
  absl::Status Add(DataColumn column);

  std::vector<DataColumn> columns_;
  absl::flat_hash_map<std::string, size_t> index_of_;  // by name, into columns_
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_DATA_FRAME_H_
