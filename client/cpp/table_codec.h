// Encodes data frames as messages of the API.
#ifndef CHORALE_CLIENT_CPP_TABLE_CODEC_H_
#define CHORALE_CLIENT_CPP_TABLE_CODEC_H_

#include <cstdint>
#include <vector>

#include "chorale/v1/chorale.pb.h"
#include "client/cpp/data_frame.h"

namespace chorale::client {

// The API's limit for the name of a column, and for a category or string of a registered table.
inline constexpr size_t kMaxTextBytes = 256;

// Rows [begin, end) of a frame.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// The purpose of a table. Texts of query rows are only looked up, and no context has categories of
// more than kMaxTextBytes. For kLookUp, longer categories and strings are therefore truncated to
// slightly more than this limit, and categories that are then equal are merged.
enum class TableUse { kRegister, kLookUp };

// Convert a meaning to and from the API.
v1::NumericValues::Meaning EncodeMeaning(Meaning meaning);
// Returns kNumber for a meaning that this version does not support.
Meaning DecodeMeaning(v1::NumericValues::Meaning meaning);

// Encodes rows of the frame; categorical columns list only the categories that occur in them.
// Requires 0 <= begin <= end <= row_count().
v1::Table EncodeRows(const DataFrame& frame, RowRange rows, TableUse use);
v1::Table EncodeTable(const DataFrame& frame, TableUse use);

// Splits the rows of the frame, in order, into ranges of at most `max_rows` rows whose messages
// have at most `max_bytes`. A range has at least one row, even if its message is larger.
std::vector<RowRange> SplitRows(const DataFrame& frame, int64_t max_bytes, int64_t max_rows);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_TABLE_CODEC_H_
