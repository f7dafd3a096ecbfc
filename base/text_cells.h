// Counts of the texts of a column, and the type that they imply.
#ifndef CHORALE_BASE_TEXT_CELLS_H_
#define CHORALE_BASE_TEXT_CELLS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace chorale {

// A text and the number of cells that contain it.
struct TextCount {
  std::string text;
  int64_t cells = 0;
  int64_t first_row = -1;
};

// The number of cells of a kind, such as dates, and the first of their rows; -1 if there are none.
struct CellCount {
  int64_t cells = 0;
  int64_t first_row = -1;

  void Add(int64_t row, int64_t count = 1) {
    if (cells == 0) first_row = row;
    cells += count;
  }
};

// Counts of the cells of a column that are not missing.
struct TextCells {
  int64_t numbers = 0;            // ParseNumber (base/number_text.h)
  std::vector<TextCount> others;  // the texts that are not numbers, by first row
  int64_t other_cells = 0;
  // Among the numbers:
  int64_t zeros_and_ones = 0;
  CellCount leading_zeros;          // numbers with a leading zero, such as codes
  CellCount rounded;                // integers that lose digits
  CellCount date_numbers;           // numbers like 20240131
  CellCount month_numbers;          // numbers like 202401
  bool has_several_months = false;  // whether month_numbers has at least three distinct numbers
  // Among the others:
  CellCount odd_numbers;  // numbers in another notation
  CellCount dates;        // dates that ParseDate parses (base/date_text.h)
  CellCount odd_dates;    // dates in another notation
  CellCount not_dates;    // all texts that ParseDate does not parse
  CellCount booleans;     // "true" and "false", regardless of case

  int64_t cells() const { return numbers + other_cells; }
};

// Counts cells in the order of their rows.
class TextCellCounter {
 public:
  // Counts `cells` cells with the text `text`, which is not missing. `row` is the first of them.
  void Add(absl::string_view text, int64_t row, int64_t cells = 1);

  // Returns the counts. Not usable afterwards.
  TextCells Finish();

 private:
  TextCells counts_;
  absl::flat_hash_map<std::string, size_t> index_of_;  // by text, into counts_.others
  absl::flat_hash_set<std::string> months_;            // distinct, three at most
};

// The type of a column of texts.
enum class TextType { kNumbers, kBooleans, kDates, kCategories };

// Returns kNumbers if all cells are numbers, or if there are none; kBooleans if all are "true" and
// "false" regardless of case (some may be 0 and 1); kDates if all are dates that ParseDate parses;
// otherwise kCategories.
TextType TypeOfTexts(const TextCells& cells);

// Returns the number that a text denotes in a column of a type other than kCategories: a decimal
// number or, for kBooleans, 0 or 1 or a word for true or false (base/truth_word.h), and for kDates
// a date. nullopt for other texts. In a column of dates, a number is a count of days since
// 1970-01-01 from year 1 to 9999; others are dates in another notation (20240131) or counts of
// other units.
std::optional<double> NumberOfText(absl::string_view text, TextType type);

// Whether nearly all cells have distinct texts, and most are not numbers.
bool AreNearlyAllDistinct(const TextCells& cells);

// Whether all cells are numbers like 20240131, or all are numbers like 202401. Returns the count of
// the form, whose cells are otherwise 0.
CellCount DatesAsNumbers(const TextCells& cells);

}  // namespace chorale

#endif  // CHORALE_BASE_TEXT_CELLS_H_
