#include "client/cpp/column_notes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/utf8.h"
#include "client/cpp/date_text.h"
#include "client/cpp/number_text.h"
#include "client/cpp/shell_word.h"

namespace chorale::client {
namespace {

constexpr size_t kMostTexts = 3;       // that one note shows
constexpr size_t kMostTextBytes = 60;  // of a text that is shown
// Numbers like 202401: the distances of two tell nothing, and a few may be such by chance.
constexpr size_t kFewestMonths = 3;
constexpr size_t kMonthDigits = 6;
constexpr char kSpelling[] = "numbers are written like -1234.5";
constexpr char kDateSpelling[] = "dates are written like 2024-01-31, and months like 2024-01";

bool IsTrueOrFalse(absl::string_view text) {
  return absl::EqualsIgnoreCase(text, "true") || absl::EqualsIgnoreCase(text, "false");
}

bool IsLetterOrDigit(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// Counts cells by their text, in the order of their first rows.
class TextCounter {
 public:
  void Add(absl::string_view text, int64_t row) {
    const auto [it, is_new] = index_of_.try_emplace(text, counts_.size());
    if (is_new) counts_.push_back({.text = std::string(text), .cells = 0, .first_row = row});
    ++counts_[it->second].cells;
  }
  std::vector<TextCount> Take() { return std::move(counts_); }

 private:
  absl::flat_hash_map<std::string, size_t> index_of_;
  std::vector<TextCount> counts_;
};

void AddCells(const TextCount& text, CellCount* count) {
  if (count->cells == 0) count->first_row = text.first_row;
  count->cells += text.cells;
}

int64_t Sum(const std::vector<TextCount>& texts) {
  int64_t cells = 0;
  for (const TextCount& text : texts) cells += text.cells;
  return cells;
}

std::string CellsAre(int64_t cells, absl::string_view one, absl::string_view many) {
  return cells == 1 ? absl::StrCat("1 cell ", one) : absl::StrCat(cells, " cells ", many);
}

// The most frequent texts, kMostTexts at most.
std::vector<TextCount> MostFrequent(std::vector<TextCount> texts) {
  std::stable_sort(texts.begin(), texts.end(),
                   [](const TextCount& a, const TextCount& b) { return a.cells > b.cells; });
  if (texts.size() > kMostTexts) texts.resize(kMostTexts);
  return texts;
}

// "'a', 'b' and 3 others".
std::string ShowTexts(const std::vector<TextCount>& texts) {
  const std::vector<TextCount> shown = MostFrequent(texts);
  std::string list = absl::StrJoin(shown, ", ", [](std::string* out, const TextCount& text) {
    absl::StrAppend(out, QuotedText(text.text));
  });
  if (shown.size() < texts.size()) {
    absl::StrAppend(&list, " and ", texts.size() - shown.size(), " others");
  }
  return list;
}

std::string First(const CsvTable& csv, int64_t column, int64_t row) {
  return absl::StrCat("first ", QuotedText(csv.Cell(row, column)), " on line ", csv.Line(row));
}

// "--missing a,b", for texts that may stand for missing cells; empty if none is likely to.
std::string ProposeMissing(const CellCounts& cells) {
  std::vector<TextCount> texts;
  for (const TextCount& text : cells.others) {
    if (!LooksLikeNumber(text.text)) texts.push_back(text);
  }
  // One text that comes again and again, or a few: not the many of a column of categories.
  const bool few = texts.size() <= kMostTexts;
  texts = MostFrequent(std::move(texts));
  if (!few) std::erase_if(texts, [](const TextCount& text) { return text.cells < 2; });
  if (texts.empty()) return "";
  return absl::StrCat("; if ", ShowTexts(texts), texts.size() == 1 ? " stands" : " stand",
                      " for missing cells: ", "--missing=",
                      absl::StrJoin(texts, ",", [](std::string* out, const TextCount& text) {
                        absl::StrAppend(out, AsOptionValue(text.text));
                      }));
}

std::string NoteOnMixture(const CsvTable& csv, int64_t column, const CellCounts& cells) {
  const std::string& name = csv.names()[column];
  std::string note = absl::StrCat("column '", name, "' is read as categories because of ",
                                  cells.other_cells, " of its ", cells.numbers + cells.other_cells,
                                  " cells, ", First(csv, column, cells.others.front().first_row));
  if (cells.others.size() > 1) absl::StrAppend(&note, ": ", ShowTexts(cells.others));
  if (cells.odd_numbers.cells > 0) {
    absl::StrAppend(&note, "; ", First(csv, column, cells.odd_numbers.first_row),
                    " looks like a number in another spelling: ", kSpelling);
  }
  absl::StrAppend(&note, ProposeMissing(cells),
                  "; if it is one of categories: --categorical=", AsOptionValue(name));
  return note;
}

// Whether the categories are (nearly) all different, and no column of numbers with a few odd texts.
bool AreAllDifferent(const CellCounts& cells) {
  constexpr int64_t kFewest = 20;
  return cells.other_cells >= kFewest && cells.other_cells > cells.numbers &&
         10 * static_cast<int64_t>(cells.others.size()) >= 9 * cells.other_cells;
}

// Collects the notes on one column.
class NoteWriter {
 public:
  NoteWriter(const CsvTable& csv, int64_t column, const CellCounts& cells)
      : csv_(csv), column_(column), cells_(cells), name_(csv.names()[column]) {}

  void NoteCategories() {
    if (cells_.numbers > 0 && !AreAllDifferent(cells_)) {
      Add(NoteReason::kMixedTypes, NoteOnMixture(csv_, column_, cells_));
    } else if (2 * cells_.odd_numbers.cells > cells_.other_cells) {
      Add(NoteReason::kNumbersAsText,
          absl::StrCat(
              Called(), " is read as categories, but ",
              CellsAre(cells_.odd_numbers.cells, "looks like a number", "look like numbers"),
              " in another spelling, ", FirstOf(cells_.odd_numbers), ": ", kSpelling));
    } else if (2 * (cells_.dates.cells + cells_.odd_dates.cells) > cells_.other_cells) {
      NoteDates();
    } else if (AreAllDifferent(cells_)) {
      Add(NoteReason::kAllDifferent,
          absl::StrCat(
              Called(), " has ", cells_.others.size(), " different texts in ",
              cells_.other_cells + cells_.numbers,
              " cells, so that a category tells next to nothing of other rows; if it is an "
              "id: --drop=",
              Option()));
    }
  }

  void NoteNumbers(Meaning meaning) {
    if (meaning == Meaning::kDate) {
      Add(NoteReason::kReadAsDates,
          absl::StrCat(Called(), " is read as dates, days since 1970-01-01; --categorical=",
                       Option(), " keeps the texts"));
    }
    const bool all_days = cells_.numbers > 1 && cells_.date_numbers.cells == cells_.numbers;
    const bool all_months =
        cells_.has_several_months && cells_.month_numbers.cells == cells_.numbers;
    if (all_days || all_months) {
      Add(NoteReason::kDatesAsNumbers,
          absl::StrCat(Called(),
                       " is read as numbers, but all look like dates written as numbers, ",
                       FirstOf(all_days ? cells_.date_numbers : cells_.month_numbers),
                       ", which are not evenly spaced: ", kDateSpelling));
    }
    NoteDashes(meaning);
    if (cells_.leading_zeros.cells > 0) {
      Add(NoteReason::kLeadingZeros,
          absl::StrCat(Called(), " is read as numbers, but ",
                       CellsAre(cells_.leading_zeros.cells, "begins", "begin"), " with a zero, ",
                       FirstOf(cells_.leading_zeros),
                       "; if these are codes: --categorical=", Option()));
    }
  }

  void NoteLostDigits() {
    if (cells_.rounded.cells == 0) return;
    Add(NoteReason::kLostDigits,
        absl::StrCat(Called(), ": ", CellsAre(cells_.rounded.cells, "has", "have"),
                     " more digits than a number keeps, ", FirstOf(cells_.rounded),
                     "; if these are ids: --drop=", Option(), " or --categorical=", Option()));
  }

  void NoteMarks() {
    std::string note = NoteOnMarks(cells_, Called());
    if (!note.empty()) Add(NoteReason::kMissingMarks, std::move(note));
  }

  std::vector<ColumnNote> Take() { return std::move(notes_); }

 private:
  void NoteDates() {
    const bool most_are_read = 2 * cells_.dates.cells > cells_.other_cells;
    const int64_t like_dates = cells_.dates.cells + cells_.odd_dates.cells;
    const std::string why =
        most_are_read
            ? absl::StrCat("because ",
                           CellsAre(cells_.not_dates.cells, "is no date", "are no dates"), ", ",
                           FirstOf(cells_.not_dates))
            : absl::StrCat("but ", CellsAre(like_dates, "looks like a date", "look like dates"),
                           ", ", FirstOf(cells_.odd_dates));
    Add(NoteReason::kDatesAsText,
        absl::StrCat(Called(), " is read as categories, which have no order, ", why, ": ",
                     kDateSpelling));
  }

  void NoteDashes(Meaning meaning) {
    // Words among them, such as "none", tell what they are.
    std::vector<TextCount> dashes = cells_.dashes;
    std::erase_if(dashes, [](const TextCount& text) {
      return std::any_of(text.text.begin(), text.text.end(), IsLetterOrDigit);
    });
    if (dashes.empty()) return;
    const char* kind = meaning == Meaning::kDate      ? "dates"
                       : meaning == Meaning::kBoolean ? "booleans"
                                                      : "numbers";
    Add(NoteReason::kMissingMarks,
        absl::StrCat(Called(), " is read as ", kind, ", and ",
                     CellsAre(Sum(dashes), "counts", "count"), " as missing: ", ShowTexts(dashes)));
  }

  void Add(NoteReason reason, std::string text) {
    notes_.push_back({.column = name_, .reason = reason, .text = std::move(text)});
  }
  std::string Called() const { return absl::StrCat("column '", name_, "'"); }
  std::string Option() const { return AsOptionValue(name_); }
  std::string FirstOf(const CellCount& count) const {
    return First(csv_, column_, count.first_row);
  }

  const CsvTable& csv_;
  const int64_t column_;
  const CellCounts& cells_;
  const std::string name_;
  std::vector<ColumnNote> notes_;
};

}  // namespace

CellCounts CountCells(const CsvTable& csv, int64_t column, const MissingMarks& missing) {
  CellCounts cells;
  TextCounter others;
  TextCounter dashes;
  TextCounter marks;
  absl::flat_hash_set<absl::string_view> months;  // different ones, kFewestMonths at most
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (cell.empty()) continue;
    const bool as_category = missing.Matches(cell, ColumnKind::kCategorical);
    if (missing.Matches(cell, ColumnKind::kNumeric)) {
      if (!as_category) {
        // A number is one of the user's marks in another spelling.
        if (!ParseNumber(cell).has_value()) dashes.Add(cell, row);
      } else if (!missing.has_own()) {
        marks.Add(cell, row);
      }
    } else if (const std::optional<double> number = ParseNumber(cell)) {
      ++cells.numbers;
      if (*number == 0 || *number == 1) ++cells.zeros_and_ones;
      if (LooksLikeDateNumber(cell)) cells.date_numbers.Add(row);
      if (LooksLikeMonthNumber(cell)) {
        cells.month_numbers.Add(row);
        if (months.size() < kFewestMonths) months.insert(cell.substr(0, kMonthDigits));
      }
      if (HasLeadingZero(cell)) cells.leading_zeros.Add(row);
      if (IsRoundedInteger(cell)) cells.rounded.Add(row);
    } else {
      ++cells.other_cells;
      others.Add(cell, row);
    }
  }
  cells.has_several_months = months.size() >= kFewestMonths;
  cells.others = others.Take();
  cells.dashes = dashes.Take();
  cells.marks = marks.Take();
  for (const TextCount& text : cells.others) {
    if (LooksLikeNumber(text.text)) AddCells(text, &cells.odd_numbers);
    const bool is_date = ParseDate(text.text).has_value();
    AddCells(text, is_date ? &cells.dates : &cells.not_dates);
    if (!is_date && LooksLikeDate(text.text)) AddCells(text, &cells.odd_dates);
    if (IsTrueOrFalse(text.text)) AddCells(text, &cells.booleans);
  }
  return cells;
}

ColumnType TypeOfCells(const CellCounts& cells) {
  if (cells.others.empty()) {
    const bool numbers = cells.numbers > 0 || cells.dashes.empty();
    return {.kind = numbers ? ColumnKind::kNumeric : ColumnKind::kCategorical};
  }
  if (cells.booleans.cells == cells.other_cells && cells.zeros_and_ones == cells.numbers) {
    return {.kind = ColumnKind::kNumeric, .meaning = Meaning::kBoolean};
  }
  if (cells.numbers > 0) return {.kind = ColumnKind::kCategorical};
  if (cells.dates.cells == cells.other_cells) {
    return {.kind = ColumnKind::kNumeric, .meaning = Meaning::kDate};
  }
  return {.kind = ColumnKind::kCategorical};
}

const char* NameOf(NoteReason reason) {
  switch (reason) {
    case NoteReason::kReadAsDates:
      return "READ_AS_DATES";
    case NoteReason::kNumbersAsText:
      return "NUMBERS_AS_TEXT";
    case NoteReason::kDatesAsText:
      return "DATES_AS_TEXT";
    case NoteReason::kDatesAsNumbers:
      return "DATES_AS_NUMBERS";
    case NoteReason::kMixedTypes:
      return "MIXED_TYPES";
    case NoteReason::kAllDifferent:
      return "ALL_DIFFERENT";
    case NoteReason::kMissingMarks:
      return "MISSING_MARKS";
    case NoteReason::kLeadingZeros:
      return "LEADING_ZEROS";
    case NoteReason::kLostDigits:
      return "LOST_DIGITS";
  }
  return "";
}

std::vector<ColumnNote> NotesOnColumn(const CsvTable& csv, int64_t column, const CellCounts& cells,
                                      ColumnType type, TypeChoice choice) {
  NoteWriter writer(csv, column, cells);
  if (type.kind == ColumnKind::kCategorical) {
    if (choice == TypeChoice::kInferred && cells.other_cells > 0) writer.NoteCategories();
    writer.NoteMarks();
  } else {
    if (choice == TypeChoice::kInferred) writer.NoteNumbers(type.meaning);
    writer.NoteLostDigits();
  }
  return writer.Take();
}

std::string NoteOnMarks(const CellCounts& cells, absl::string_view called) {
  if (cells.marks.empty()) return "";
  return absl::StrCat(
      called, " is one of categories, and ", CellsAre(Sum(cells.marks), "counts", "count"),
      " as missing: ", ShowTexts(cells.marks),
      "; if that is a category, name the texts of missing cells: --missing=TEXT,... "
      "or, for none, --missing ''");
}

std::string QuotedText(absl::string_view text) {
  if (text.size() <= kMostTextBytes) return absl::StrCat("'", text, "'");
  absl::string_view cut = text.substr(0, kMostTextBytes);
  while (!cut.empty() && !IsValidUtf8(cut)) cut.remove_suffix(1);
  return absl::StrCat("'", cut, "...'");
}

std::string AsOptionValue(absl::string_view text) {
  std::string cell = CsvLine({std::string(text)});
  cell.pop_back();  // the line feed
  return ShellWord(cell);
}

}  // namespace chorale::client
