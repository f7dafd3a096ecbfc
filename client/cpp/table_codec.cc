#include "client/cpp/table_codec.h"

namespace chorale::client {
namespace {

// Upper bounds on the overhead of the wire format: tags and lengths of a column's nested messages,
// and of one category.
constexpr int64_t kColumnOverhead = 32;
constexpr int64_t kCategoryOverhead = 6;
constexpr int64_t kNumberBytes = 8;
constexpr int64_t kCodeBytes = 5;  // a zigzag varint of 32 bits

void EncodeCategorical(const DataColumn& column, RowRange rows, v1::CategoricalValues* out) {
  constexpr int32_t kUnseen = -2;
  std::vector<int32_t> code_in_message(column.categories.size(), kUnseen);
  out->mutable_codes()->Reserve(static_cast<int>(rows.size()));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int32_t code = column.codes[row];
    if (code == kMissingCategory) {
      out->add_codes(-1);
      continue;
    }
    if (code_in_message[code] == kUnseen) {
      code_in_message[code] = out->categories_size();
      out->add_categories(column.categories[code]);
    }
    out->add_codes(code_in_message[code]);
  }
}

// Upper bound on the bytes of one message.
class MessageSize {
 public:
  explicit MessageSize(const DataFrame& frame) : frame_(frame) {
    for (const DataColumn& column : frame.columns()) {
      base_ += kColumnOverhead + static_cast<int64_t>(column.name.size());
      last_message_.emplace_back(column.categories.size(), int64_t{-1});
    }
    StartMessage();
  }

  void StartMessage() {
    ++message_;
    bytes_ = base_;
  }

  // Adds a row; returns the bytes including it.
  int64_t Add(int64_t row) {
    for (size_t c = 0; c < frame_.columns().size(); ++c) {
      const DataColumn& column = frame_.columns()[c];
      if (column.kind == ColumnKind::kNumeric) {
        bytes_ += kNumberBytes;
        continue;
      }
      bytes_ += kCodeBytes;
      const int32_t code = column.codes[row];
      if (code == kMissingCategory || last_message_[c][code] == message_) continue;
      last_message_[c][code] = message_;
      bytes_ += kCategoryOverhead + static_cast<int64_t>(column.categories[code].size());
    }
    return bytes_;
  }

 private:
  const DataFrame& frame_;
  int64_t base_ = 0;
  int64_t bytes_ = 0;
  int64_t message_ = -1;
  std::vector<std::vector<int64_t>> last_message_;  // [columns][categories]: last message with it
};

}  // namespace

v1::Table EncodeRows(const DataFrame& frame, RowRange rows) {
  v1::Table table;
  for (const DataColumn& column : frame.columns()) {
    v1::Column* out = table.add_columns();
    out->set_name(column.name);
    if (column.kind == ColumnKind::kNumeric) {
      out->mutable_numeric()->mutable_values()->Add(column.numbers.begin() + rows.begin,
                                                    column.numbers.begin() + rows.end);
    } else {
      EncodeCategorical(column, rows, out->mutable_categorical());
    }
  }
  return table;
}

v1::Table EncodeTable(const DataFrame& frame) {
  return EncodeRows(frame, RowRange{0, frame.row_count()});
}

std::vector<RowRange> SplitRows(const DataFrame& frame, int64_t max_bytes, int64_t max_rows) {
  std::vector<RowRange> ranges;
  MessageSize size(frame);
  RowRange range;
  for (int64_t row = 0; row < frame.row_count(); ++row) {
    const bool fits = size.Add(row) <= max_bytes && range.size() < max_rows;
    if (!fits && range.size() > 0) {
      ranges.push_back(range);
      range = RowRange{row, row};
      size.StartMessage();
      size.Add(row);
    }
    range.end = row + 1;
  }
  if (range.size() > 0) ranges.push_back(range);
  return ranges;
}

}  // namespace chorale::client
