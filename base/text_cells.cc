#include "base/text_cells.h"

#include <utility>

#include "absl/strings/match.h"
#include "base/date_text.h"
#include "base/number_text.h"
#include "base/truth_word.h"

namespace chorale {
namespace {

// Distinct numbers like 202401: fewer may look like months by chance.
constexpr size_t kFewestMonths = 3;
constexpr size_t kMonthDigits = 6;
// Days since 1970-01-01 of 0001-01-01 and of the day after 9999-12-31.
constexpr double kFirstDay = -719162;
constexpr double kEndDay = 2932897;

bool IsTrueOrFalse(absl::string_view text) {
  return absl::EqualsIgnoreCase(text, "true") || absl::EqualsIgnoreCase(text, "false");
}

void AddCells(const TextCount& text, CellCount* count) { count->Add(text.first_row, text.cells); }

}  // namespace

void TextCellCounter::Add(absl::string_view text, int64_t row, int64_t cells) {
  const std::optional<double> number = ParseNumber(text);
  if (!number.has_value()) {
    counts_.other_cells += cells;
    const auto [it, is_new] = index_of_.try_emplace(text, counts_.others.size());
    if (is_new) counts_.others.push_back({.text = std::string(text), .cells = 0, .first_row = row});
    counts_.others[it->second].cells += cells;
    return;
  }
  counts_.numbers += cells;
  if (*number == 0 || *number == 1) counts_.zeros_and_ones += cells;
  if (LooksLikeDateNumber(text)) counts_.date_numbers.Add(row, cells);
  if (LooksLikeMonthNumber(text)) {
    counts_.month_numbers.Add(row, cells);
    if (months_.size() < kFewestMonths) months_.emplace(text.substr(0, kMonthDigits));
  }
  if (HasLeadingZero(text)) counts_.leading_zeros.Add(row, cells);
  if (IsRoundedInteger(text)) counts_.rounded.Add(row, cells);
}

TextCells TextCellCounter::Finish() {
  counts_.has_several_months = months_.size() >= kFewestMonths;
  for (const TextCount& text : counts_.others) {
    if (LooksLikeNumber(text.text)) AddCells(text, &counts_.odd_numbers);
    const bool is_date = ParseDate(text.text).has_value();
    AddCells(text, is_date ? &counts_.dates : &counts_.not_dates);
    if (!is_date && LooksLikeDate(text.text)) AddCells(text, &counts_.odd_dates);
    if (IsTrueOrFalse(text.text)) AddCells(text, &counts_.booleans);
  }
  return std::move(counts_);
}

TextType TypeOfTexts(const TextCells& cells) {
  if (cells.others.empty()) return TextType::kNumbers;
  if (cells.booleans.cells == cells.other_cells && cells.zeros_and_ones == cells.numbers) {
    return TextType::kBooleans;
  }
  if (cells.numbers == 0 && cells.dates.cells == cells.other_cells) return TextType::kDates;
  return TextType::kCategories;
}

std::optional<double> NumberOfText(absl::string_view text, TextType type) {
  if (const std::optional<double> number = ParseNumber(text)) {
    const bool is_day = *number >= kFirstDay && *number < kEndDay;
    if (type == TextType::kDates && !is_day) return std::nullopt;
    if (type == TextType::kBooleans && *number != 0 && *number != 1) return std::nullopt;
    return number;
  }
  if (type == TextType::kDates) return ParseDate(text);
  if (type != TextType::kBooleans) return std::nullopt;
  const std::optional<bool> truth = TruthOfWord(text);
  if (!truth.has_value()) return std::nullopt;
  return *truth ? 1.0 : 0.0;
}

bool AreNearlyAllDistinct(const TextCells& cells) {
  constexpr int64_t kFewest = 20;
  return cells.other_cells >= kFewest && cells.other_cells > cells.numbers &&
         10 * static_cast<int64_t>(cells.others.size()) >= 9 * cells.other_cells;
}

CellCount DatesAsNumbers(const TextCells& cells) {
  if (!cells.others.empty()) return {};
  if (cells.numbers > 1 && cells.date_numbers.cells == cells.numbers) return cells.date_numbers;
  if (cells.has_several_months && cells.month_numbers.cells == cells.numbers) {
    return cells.month_numbers;
  }
  return {};
}

}  // namespace chorale
