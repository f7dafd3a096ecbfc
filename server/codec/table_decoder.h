// Decodes and validates the tables in messages.
#ifndef CHORALE_SERVER_CODEC_TABLE_DECODER_H_
#define CHORALE_SERVER_CODEC_TABLE_DECODER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"

namespace chorale {

// Limits of one table in a message. They are checked before any data is copied.
struct TableBounds {
  int64_t max_rows = 0;
  int64_t max_columns = 0;
  int64_t max_categories = 0;  // of one categorical column
  int64_t max_name_bytes = 0;  // a column name
  int64_t max_text_bytes = 0;  // a category or a string
};

// The bounds of the `query_rows` of a query. Their categories are only looked up, and a category
// that no context can contain is unknown. Therefore they may be as long as the message, and each
// row may have another category. The same applies to strings.
TableBounds QueryRowBounds(const Limits& limits);
// Bounds of one chunk of a dataset, whose columns include the target.
TableBounds ChunkBounds(const Limits& limits);

// Columns of strings have the type kText. InvalidArgument with the field below `path`, e.g.
// "rows.columns[2].numeric.values[5]": no column or no row, an empty or repeated name, no values,
// unequal lengths, an infinity, an unknown meaning, an empty or repeated category, a code without a
// category, an integer or date out of range, a missing row that does not exist, or a table beyond
// `bounds`. Errors in a column also have its name.
absl::StatusOr<Table> DecodeTable(const v1::Table& message, absl::string_view path,
                                  const TableBounds& bounds);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_TABLE_DECODER_H_
