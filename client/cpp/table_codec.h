// Encodes data frames as messages of the API.
#ifndef CHORALE_CLIENT_CPP_TABLE_CODEC_H_
#define CHORALE_CLIENT_CPP_TABLE_CODEC_H_

#include <cstdint>
#include <vector>

#include "chorale/v1/chorale.pb.h"
#include "client/cpp/data_frame.h"

namespace chorale::client {

// The API's limit for the name of a column, and for a category of a registered table.
inline constexpr size_t kMaxTextBytes = 256;

// Rows [begin, end) of a frame.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// What a table is for. Of a text that is only looked up, a context knows none of more than
// kMaxTextBytes: such texts are cut, to a little more than that, and texts that are then equal
// become one.
enum class TableUse { kRegister, kLookUp };

// What the numbers of a column stand for, in the API and here.
v1::NumericValues::Meaning EncodeMeaning(Meaning meaning);
// Plain numbers for a meaning that this version does not know.
Meaning DecodeMeaning(v1::NumericValues::Meaning meaning);

// Encodes rows of the frame; categorical columns list only the categories that occur in them.
// Requires 0 <= begin <= end <= row_count().
v1::Table EncodeRows(const DataFrame& frame, RowRange rows, TableUse use);
v1::Table EncodeTable(const DataFrame& frame, TableUse use);

// Splits the frame's rows, in order, into ranges of at most `max_rows` rows whose messages take at
// most `max_bytes`. A range has at least one row, even if that row alone is larger.
std::vector<RowRange> SplitRows(const DataFrame& frame, int64_t max_bytes, int64_t max_rows);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_TABLE_CODEC_H_
