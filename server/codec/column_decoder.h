// Decodes and validates the values of one column in a message.
#ifndef CHORALE_SERVER_CODEC_COLUMN_DECODER_H_
#define CHORALE_SERVER_CODEC_COLUMN_DECODER_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/data/table.h"

namespace chorale {

// Limits of the texts of a column.
struct TextBounds {
  int64_t max_categories = 0;  // of CategoricalValues
  int64_t max_text_bytes = 0;  // of a category or a string
};

// The number of cells; 0 if the column has no values.
int64_t CellsOf(const v1::Column& column);

// The name of the column's form in the API, such as "integers"; empty if it has no values.
absl::string_view FormOf(const v1::Column& column);

// Checks a non-empty text of at most `max_bytes` bytes that does not occur in `seen`, and adds it.
// `path` is the field of the text.
absl::Status CheckDistinctText(absl::string_view text, int64_t max_bytes, absl::string_view path,
                               absl::flat_hash_set<absl::string_view>* seen);

// Writes all of `column` but its name. Strings become a column of type kText, and other forms
// numeric or categorical columns. InvalidArgument with the field below `path`, for example
// "rows.columns[2].numeric.values[5]". REQUIRES: the column has values.
absl::Status DecodeValues(const v1::Column& message, absl::string_view path,
                          const TextBounds& bounds, Column* column);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_COLUMN_DECODER_H_
