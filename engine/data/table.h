// A table of named, typed columns, from a registration or a request.
#ifndef CHORALE_ENGINE_DATA_TABLE_H_
#define CHORALE_ENGINE_DATA_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/memory_set.h"

namespace chorale {

enum class ColumnType {
  kNumeric,
  kCategorical,
  // Texts whose type is not yet inferred: only in tables of messages, never in a dataset
  // (engine/data/text_columns.h).
  kText,
};

// The meaning of a column's numbers. Clients use it to convert texts to numbers. Results do not
// depend on it, except that dates of one day of each month count months
// (engine/data/month_count.h).
enum class Meaning {
  kNumber,
  kBoolean,   // 0 for false, 1 for true
  kDate,      // days since 1970-01-01 UTC, the time of day as the fraction
  kDuration,  // days
};

inline constexpr int32_t kMissingCode = -1;

struct Column {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  std::vector<double> numbers;          // [rows] if numeric; NaN is a missing cell
  std::vector<std::string> categories;  // distinct, non-empty strings, unless numeric
  std::vector<int32_t> codes;           // [rows] into categories, or kMissingCode, unless numeric
  Meaning meaning = Meaning::kNumber;   // kNumber unless numeric

  int64_t rows() const {
    return static_cast<int64_t>(type == ColumnType::kNumeric ? numbers.size() : codes.size());
  }
};

struct Table {
  std::vector<Column> columns;

  int64_t rows() const { return columns.empty() ? 0 : columns.front().rows(); }
  // Index of the column with that name, or -1.
  int64_t Find(const std::string& name) const {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].name == name) return static_cast<int64_t>(i);
    }
    return -1;
  }
};

// Whether a model with ModelConfig::season_column gets a column with the phase of a season in the
// context.
enum class Seasons { kSought, kNotSought };

// The most appends of a dataset, so that their starts take little space. The engine encodes a
// context anew long before.
inline constexpr int64_t kMostAppends = 1024;

// A registered table: features, and the numeric target column y that the model predicts.
struct Dataset {
  Table features;         // without the target column
  std::string target;     // name of the target column
  std::vector<double> y;  // [rows], finite
  Seasons seasons = Seasons::kSought;
  MemorySet memory = {};
  // The rows before each append, at most kMostAppends, in ascending order; empty if no rows were
  // appended since the context was encoded as a whole (engine/data/append_rows.h). Rows
  // [append_starts[i], append_starts[i + 1]) were appended together. The transform is fitted to the
  // rows before the first append alone, and the rows of an append attend to all earlier rows and to
  // each other, so that an append changes nothing of the earlier rows.
  std::vector<int64_t> append_starts = {};
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TABLE_H_
