#include "engine/data/text_columns.h"

#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/date_text.h"
#include "base/names.h"
#include "base/normal_text.h"
#include "base/number_text.h"
#include "base/text_cells.h"

namespace chorale {
namespace {

// "1 of its 4 cells is", "2 of its 4 cells are".
std::string OfCells(const CellCount& count, int64_t cells, absl::string_view one,
                    absl::string_view many) {
  return absl::StrCat(count.cells, " of its ", cells, cells == 1 ? " cell " : " cells ",
                      count.cells == 1 ? one : many);
}

// Puts the texts of a column into normal form, merges equal texts, and counts them.
TextCells Normalise(Column* column) {
  std::vector<int64_t> cells(column->categories.size(), 0);
  std::vector<int64_t> first_row(column->categories.size(), -1);
  std::vector<int32_t> renumber(column->categories.size(), kMissingCode);
  absl::flat_hash_map<std::string, int32_t> code_of;
  std::vector<std::string> texts;
  for (size_t i = 0; i < column->categories.size(); ++i) {
    std::string text = NormalText(column->categories[i]);
    if (text.empty()) continue;
    const auto next = static_cast<int32_t>(texts.size());
    const auto [it, is_new] = code_of.try_emplace(text, next);
    if (is_new) texts.push_back(std::move(text));
    renumber[i] = it->second;
  }
  for (size_t row = 0; row < column->codes.size(); ++row) {
    int32_t& code = column->codes[row];
    if (code != kMissingCode) code = renumber[code];
    if (code == kMissingCode) continue;
    if (cells[code]++ == 0) first_row[code] = static_cast<int64_t>(row);
  }
  column->categories = std::move(texts);
  TextCellCounter counter;
  for (size_t code = 0; code < column->categories.size(); ++code) {
    if (cells[code] > 0) counter.Add(column->categories[code], first_row[code], cells[code]);
  }
  return counter.Finish();
}

void ConvertToNumbers(Meaning meaning, Column* column) {
  std::vector<double> number_of;
  number_of.reserve(column->categories.size());
  for (const std::string& text : column->categories) {
    number_of.push_back(
        ParseCell(text, meaning).value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  column->numbers.reserve(column->codes.size());
  for (const int32_t code : column->codes) {
    column->numbers.push_back(code == kMissingCode ? std::numeric_limits<double>::quiet_NaN()
                                                   : number_of[code]);
  }
  column->type = ColumnType::kNumeric;
  column->meaning = meaning;
  column->categories = {};
  column->codes = {};
}

// Gives equal numbers one category.
void ConvertToCategories(Column* column) {
  column->type = ColumnType::kCategorical;
  std::vector<int32_t> renumber;
  std::vector<std::string> categories;
  absl::flat_hash_map<std::string, int32_t> code_of;
  for (std::string& text : column->categories) {
    if (IsPlainNumber(text)) text = FormatNumber(*ParseNumber(text));
    const auto [it, is_new] = code_of.try_emplace(text, static_cast<int32_t>(categories.size()));
    if (is_new) categories.push_back(std::move(text));
    renumber.push_back(it->second);
  }
  for (int32_t& code : column->codes) {
    if (code != kMissingCode) code = renumber[code];
  }
  column->categories = std::move(categories);
}

// Writes the warnings about one column.
class WarningWriter {
 public:
  // `first_text`: the text in each row, before the conversion.
  WarningWriter(const Column& texts, const TextCells& cells) : texts_(texts), cells_(cells) {}

  void OnCategories() {
    if (cells_.rounded.cells > 0 && cells_.others.empty()) {
      Add(TextReason::kLargeIntegers, cells_.rounded.cells,
          absl::StrCat(Of(cells_.rounded, "is an integer", "are integers"),
                       " beyond 2^53 that float64 cannot represent", First(cells_.rounded),
                       ", so the column is read as categories, which keep all digits"));
    } else if (AreNearlyAllDistinct(cells_)) {
      OnDistinctTexts();
    } else if (cells_.numbers > 0) {
      CellCount others;
      for (const TextCount& text : cells_.others) others.Add(text.first_row, text.cells);
      Add(TextReason::kMixedTypes, others.cells,
          absl::StrCat("read as categories because ",
                       Of(others, "is not a number", "are not numbers"), First(others),
                       ": send missing cells as empty strings, and numbers like -1234.5"));
    } else {
      OnOddNotation();
    }
  }

  void OnNumbers(Meaning meaning) {
    if (meaning == Meaning::kDate) {
      Add(TextReason::kReadAsDates, cells_.cells(),
          "read as dates (days since 1970-01-01); send categorical values to keep the texts");
    }
    if (const CellCount dates = DatesAsNumbers(cells_); dates.cells > 0) {
      Add(TextReason::kDatesAsNumbers, dates.cells,
          absl::StrCat("read as numbers, but all look like dates written as numbers", First(dates),
                       ", which are not evenly spaced: send dates like 2024-01-31"));
    }
    if (cells_.leading_zeros.cells > 0) {
      Add(TextReason::kLeadingZeros, cells_.leading_zeros.cells,
          absl::StrCat("read as numbers, but ", Of(cells_.leading_zeros, "begins", "begin"),
                       " with a zero", First(cells_.leading_zeros),
                       ": if these are codes, send categorical values"));
    }
  }

  std::vector<TextWarning> Take() { return std::move(warnings_); }

 private:
  // Nearly all texts are distinct: usually IDs, but dates and numbers in another notation as well.
  void OnDistinctTexts() {
    if (OnOddNotation()) return;
    Add(TextReason::kAllDistinct, cells_.other_cells,
        absl::StrCat("has ", cells_.others.size(), " distinct texts in ", cells_.cells(),
                     " cells, which are hardly informative as categories: if these are IDs or "
                     "free text, omit the column"));
  }

  // Returns whether most texts are numbers or dates in a notation that is not parsed.
  bool OnOddNotation() {
    if (2 * cells_.odd_numbers.cells > cells_.other_cells) {
      Add(TextReason::kNumbersAsText, cells_.odd_numbers.cells,
          absl::StrCat("read as categories, but ",
                       Of(cells_.odd_numbers, "looks like a number", "look like numbers"),
                       " in another notation", First(cells_.odd_numbers),
                       ": send numbers like -1234.5"));
      return true;
    }
    const int64_t dates = cells_.dates.cells + cells_.odd_dates.cells;
    if (2 * dates <= cells_.other_cells) return false;
    const bool most_are_dates = 2 * cells_.dates.cells > cells_.other_cells;
    const CellCount& shown = most_are_dates ? cells_.not_dates : cells_.odd_dates;
    Add(TextReason::kDatesAsText, dates,
        absl::StrCat("read as categories, which have no order, ",
                     most_are_dates
                         ? absl::StrCat("because ", Of(shown, "is not a date like the others",
                                                       "are not dates like the others"))
                         : absl::StrCat("but ", Of(shown, "looks like a date", "look like dates"),
                                        " in another notation"),
                     First(shown), ": send dates like 2024-01-31, and months like 2024-01"));
    return true;
  }

  void Add(TextReason reason, int64_t cells, std::string message) {
    warnings_.push_back({texts_.name, reason, cells, std::move(message)});
  }
  std::string Of(const CellCount& count, absl::string_view one, absl::string_view many) const {
    return OfCells(count, cells_.cells(), one, many);
  }
  std::string First(const CellCount& count) const {
    const std::string& text = texts_.categories[texts_.codes[count.first_row]];
    return absl::StrCat(" (first: ", QuoteName(text), " in row ", count.first_row, ")");
  }

  const Column& texts_;  // in normal form
  const TextCells& cells_;
  std::vector<TextWarning> warnings_;
};

TextType NotationOf(Meaning meaning) {
  switch (meaning) {
    case Meaning::kBoolean:
      return TextType::kBooleans;
    case Meaning::kDate:
      return TextType::kDates;
    case Meaning::kNumber:
    case Meaning::kDuration:
      break;
  }
  return TextType::kNumbers;
}

}  // namespace

std::optional<double> ParseCell(absl::string_view text, Meaning meaning) {
  return NumberOfText(text, NotationOf(meaning));
}

const char* ExpectedTexts(Meaning meaning) {
  switch (meaning) {
    case Meaning::kBoolean:
      return "a word for true or false";
    case Meaning::kDate:
      return "a date like 2024-01-31 or a number of days since 1970-01-01";
    case Meaning::kDuration:
      return "a number of days";
    case Meaning::kNumber:
      break;
  }
  return "a finite number like -1234.5";
}

std::vector<TextWarning> InferType(Column* column) {
  const TextCells cells = Normalise(column);
  WarningWriter writer(*column, cells);
  TextType type = TypeOfTexts(cells);
  if (type == TextType::kNumbers && cells.rounded.cells > 0) type = TextType::kCategories;
  const Meaning meaning = type == TextType::kBooleans ? Meaning::kBoolean
                          : type == TextType::kDates  ? Meaning::kDate
                                                      : Meaning::kNumber;
  if (type == TextType::kCategories) {
    writer.OnCategories();
    ConvertToCategories(column);
  } else {
    writer.OnNumbers(meaning);
    ConvertToNumbers(meaning, column);
  }
  return writer.Take();
}

void ReadAsCategories(Column* column) {
  Normalise(column);
  ConvertToCategories(column);
}

}  // namespace chorale
