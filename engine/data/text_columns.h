// Columns of strings: the type that their texts imply, and their conversion.
#ifndef CHORALE_ENGINE_DATA_TEXT_COLUMNS_H_
#define CHORALE_ENGINE_DATA_TEXT_COLUMNS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/data/table.h"

namespace chorale {

// The reason for a warning about a column of strings.
enum class TextReason {
  kReadAsDates,     // the column is numeric: all texts are dates
  kNumbersAsText,   // categorical: most texts are numbers in a notation that is not parsed
  kDatesAsText,     // categorical: most texts are dates in a notation that is not parsed
  kDatesAsNumbers,  // numeric: all texts are numbers like 20240131 or 202401
  kMixedTypes,      // categorical: some texts are numbers, others are not
  kAllDistinct,     // categorical: nearly every cell has another text
  kLeadingZeros,    // numeric: some numbers begin with a zero, as codes do
  kLargeIntegers,   // categorical: integers that float64 cannot represent
};

struct TextWarning {
  std::string column;
  TextReason reason = TextReason::kMixedTypes;
  int64_t cells = 0;    // the number of affected cells
  std::string message;  // a sentence without the column's name
};

// Returns the number that a text denotes in a numeric column of this meaning: NumberOfText
// (base/text_cells.h) in the notation of the meaning. A duration is a number of days.
std::optional<double> ParseCell(absl::string_view text, Meaning meaning);

// Describes the texts that ParseCell accepts for a column of this meaning.
const char* ExpectedTexts(Meaning meaning);

// Infers the type of a column (base/text_cells.h) and converts it to a numeric or categorical
// column. Texts are compared and parsed in their normal form (base/normal_text.h), which the
// categories of the result have; an empty normal form is a missing cell. Integers that float64
// cannot represent make the column categorical. Categories that are equal numbers, such as "3" and
// "3.0", become one category, the shortest notation of the number, unless it begins with a zero or
// is an integer that float64 cannot represent. REQUIRES: the type is kText.
std::vector<TextWarning> InferType(Column* column);

// Converts a column to a categorical column as InferType does for texts that are not of another
// type. REQUIRES: the type is kText.
void ReadAsCategories(Column* column);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TEXT_COLUMNS_H_
