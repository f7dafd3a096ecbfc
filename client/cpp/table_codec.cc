#include "client/cpp/table_codec.h"

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace chorale::client {
namespace {

// Upper bounds on the overhead of the wire format: tags and lengths of a column's nested messages,
// and of one category or string.
constexpr int64_t kColumnOverhead = 32;
constexpr int64_t kTextOverhead = 6;
constexpr int64_t kNumberBytes = 8;
constexpr int64_t kCodeBytes = 5;  // a zigzag varint of 32 bits

// Returns the text, cut to a length that is still too long for a registered table.
absl::string_view CutText(absl::string_view text) {
  size_t end = kMaxTextBytes + 1;
  if (text.size() <= end) return text;
  // Do not cut within a character: the continuation bytes of UTF-8 are 10xxxxxx.
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return text.substr(0, end);
}

void EncodeCategorical(const DataColumn& column, RowRange rows, TableUse use,
                       v1::CategoricalValues* out) {
  constexpr int32_t kUnseen = -2;
  std::vector<int32_t> code_in_message(column.categories.size(), kUnseen);
  absl::flat_hash_map<absl::string_view, int32_t> code_of_cut;
  out->mutable_codes()->Reserve(static_cast<int>(rows.size()));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int32_t code = column.codes[row];
    if (code == kMissingCategory) {
      out->add_codes(-1);
      continue;
    }
    int32_t& in_message = code_in_message[code];
    if (in_message == kUnseen) {
      absl::string_view text = column.categories[code];
      in_message = out->categories_size();
      if (use == TableUse::kLookUp && text.size() > kMaxTextBytes) {
        text = CutText(text);
        in_message = code_of_cut.try_emplace(text, in_message).first->second;
      }
      if (in_message == out->categories_size()) out->add_categories(std::string(text));
    }
    out->add_codes(in_message);
  }
}

void EncodeStrings(const DataColumn& column, RowRange rows, TableUse use, v1::StringValues* out) {
  out->mutable_values()->Reserve(static_cast<int>(rows.size()));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const absl::string_view text = column.strings[row];
    out->add_values(std::string(use == TableUse::kLookUp ? CutText(text) : text));
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
      if (column.kind == ColumnKind::kStrings) {
        bytes_ += kTextOverhead + static_cast<int64_t>(column.strings[row].size());
        continue;
      }
      bytes_ += kCodeBytes;
      const int32_t code = column.codes[row];
      if (code == kMissingCategory || last_message_[c][code] == message_) continue;
      last_message_[c][code] = message_;
      bytes_ += kTextOverhead + static_cast<int64_t>(column.categories[code].size());
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

v1::NumericValues::Meaning EncodeMeaning(Meaning meaning) {
  switch (meaning) {
    case Meaning::kNumber:
      return v1::NumericValues::MEANING_UNSPECIFIED;
    case Meaning::kBoolean:
      return v1::NumericValues::MEANING_BOOLEAN;
    case Meaning::kDate:
      return v1::NumericValues::MEANING_DATE;
    case Meaning::kDuration:
      return v1::NumericValues::MEANING_DURATION;
  }
  return v1::NumericValues::MEANING_UNSPECIFIED;
}

Meaning DecodeMeaning(v1::NumericValues::Meaning meaning) {
  for (const Meaning each : {Meaning::kBoolean, Meaning::kDate, Meaning::kDuration}) {
    if (EncodeMeaning(each) == meaning) return each;
  }
  return Meaning::kNumber;
}

v1::Table EncodeRows(const DataFrame& frame, RowRange rows, TableUse use) {
  v1::Table table;
  for (const DataColumn& column : frame.columns()) {
    v1::Column* out = table.add_columns();
    out->set_name(column.name);
    switch (column.kind) {
      case ColumnKind::kNumeric:
        out->mutable_numeric()->mutable_values()->Add(column.numbers.begin() + rows.begin,
                                                      column.numbers.begin() + rows.end);
        out->mutable_numeric()->set_meaning(EncodeMeaning(column.meaning));
        break;
      case ColumnKind::kCategorical:
        EncodeCategorical(column, rows, use, out->mutable_categorical());
        break;
      case ColumnKind::kStrings:
        EncodeStrings(column, rows, use, out->mutable_strings());
        break;
    }
  }
  return table;
}

v1::Table EncodeTable(const DataFrame& frame, TableUse use) {
  return EncodeRows(frame, RowRange{0, frame.row_count()}, use);
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
