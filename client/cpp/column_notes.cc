#include "client/cpp/column_notes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/utf8.h"
#include "client/cpp/shell_word.h"

namespace chorale::client {
namespace {

constexpr size_t kMostTexts = 3;       // in a warning
constexpr size_t kMostTextBytes = 60;  // of a text in a warning
constexpr char kNotation[] = "write numbers like -1234.5";
constexpr char kDateNotation[] = "write dates like 2024-01-31, and months like 2024-01";

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

int64_t Sum(const std::vector<TextCount>& texts) {
  int64_t cells = 0;
  for (const TextCount& text : texts) cells += text.cells;
  return cells;
}

// "1 of its 4 cells is a date", "2 of its 4 cells are dates".
std::string OfCells(int64_t count, int64_t cells, absl::string_view one, absl::string_view many) {
  return absl::StrCat(count, " of its ", cells, cells == 1 ? " cell " : " cells ",
                      count == 1 ? one : many);
}

// The most frequent texts, kMostTexts at most.
std::vector<TextCount> MostFrequent(std::vector<TextCount> texts) {
  std::stable_sort(texts.begin(), texts.end(),
                   [](const TextCount& a, const TextCount& b) { return a.cells > b.cells; });
  if (texts.size() > kMostTexts) texts.resize(kMostTexts);
  return texts;
}

// "'a', 'b', 'c' and 4 others".
std::string ShowTexts(const std::vector<TextCount>& texts) {
  const std::vector<TextCount> shown = MostFrequent(texts);
  std::string list = absl::StrJoin(shown, ", ", [](std::string* out, const TextCount& text) {
    absl::StrAppend(out, QuotedText(text.text));
  });
  if (shown.size() < texts.size()) {
    const size_t more = texts.size() - shown.size();
    absl::StrAppend(&list, " and ", more, more == 1 ? " other" : " others");
  }
  return list;
}

std::string CellAt(const CsvTable& csv, int64_t column, int64_t row) {
  return absl::StrCat(QuotedText(csv.Cell(row, column)), " on line ", csv.Line(row));
}

std::string First(const CsvTable& csv, int64_t column, int64_t row) {
  return absl::StrCat(" (first: ", CellAt(csv, column, row), ")");
}

// "use --missing=a,b", for texts that may stand for missing cells; empty if none probably do.
std::string ProposeMissing(const CellCounts& cells) {
  std::vector<TextCount> texts;
  for (const TextCount& text : cells.others) {
    if (!LooksLikeNumber(text.text)) texts.push_back(text);
  }
  // A few texts, or repeated texts: not the many texts of a categorical column.
  const bool few = texts.size() <= kMostTexts;
  texts = MostFrequent(std::move(texts));
  if (!few) std::erase_if(texts, [](const TextCount& text) { return text.cells < 2; });
  if (texts.empty()) return "";
  return absl::StrCat("; if ", ShowTexts(texts), texts.size() == 1 ? " stands" : " stand",
                      " for missing cells, use --missing=",
                      absl::StrJoin(texts, ",", [](std::string* out, const TextCount& text) {
                        absl::StrAppend(out, AsOptionValue(text.text));
                      }));
}

std::string NoteOnMixture(const CsvTable& csv, int64_t column, const CellCounts& cells) {
  const std::string& name = csv.names()[column];
  std::string note = absl::StrCat("column '", name, "' is read as categories because ",
                                  OfCells(cells.other_cells, cells.numbers + cells.other_cells,
                                          "is not a number", "are not numbers"));
  if (cells.others.size() > 1) absl::StrAppend(&note, ": ", ShowTexts(cells.others));
  absl::StrAppend(&note, First(csv, column, cells.others.front().first_row));
  if (cells.odd_numbers.cells > 0) {
    absl::StrAppend(&note, "; ", CellAt(csv, column, cells.odd_numbers.first_row),
                    " looks like a number in another notation: ", kNotation);
  }
  absl::StrAppend(&note, ProposeMissing(cells),
                  "; if the column is categorical, use --categorical=", AsOptionValue(name));
  return note;
}

// Collects the warnings about a column.
class NoteWriter {
 public:
  NoteWriter(const CsvTable& csv, int64_t column, const CellCounts& cells)
      : csv_(csv), column_(column), cells_(cells), name_(csv.names()[column]) {}

  void NoteCategories() {
    if (cells_.numbers > 0 && !AreNearlyAllDistinct(cells_)) {
      Add(NoteReason::kMixedTypes, NoteOnMixture(csv_, column_, cells_));
    } else if (2 * cells_.odd_numbers.cells > cells_.other_cells) {
      Add(NoteReason::kNumbersAsText,
          absl::StrCat(Called(), " is read as categories, but ",
                       OfAll(cells_.odd_numbers, "looks like a number", "look like numbers"),
                       " in another notation", FirstOf(cells_.odd_numbers), ": ", kNotation));
    } else if (2 * (cells_.dates.cells + cells_.odd_dates.cells) > cells_.other_cells) {
      NoteDates();
    } else if (AreNearlyAllDistinct(cells_)) {
      Add(NoteReason::kAllDistinct,
          absl::StrCat(
              Called(), " has ", cells_.others.size(), " distinct texts in ", AllCells(),
              " cells, which are hardly informative as categories: if these are IDs or free text, "
              "drop the column with --drop=",
              Option()));
    }
  }

  void NoteNumbers(Meaning meaning) {
    if (meaning == Meaning::kDate) {
      Add(NoteReason::kReadAsDates,
          absl::StrCat(Called(), " is read as dates (days since 1970-01-01); --categorical=",
                       Option(), " keeps the texts"));
    }
    if (const CellCount dates = DatesAsNumbers(cells_); dates.cells > 0) {
      Add(NoteReason::kDatesAsNumbers,
          absl::StrCat(Called(), " is read as numbers, but all look like dates written as numbers",
                       FirstOf(dates), ", which are not evenly spaced: ", kDateNotation));
    }
    NoteDashes(meaning);
    if (cells_.leading_zeros.cells > 0) {
      Add(NoteReason::kLeadingZeros,
          absl::StrCat(Called(), " is read as numbers, but ",
                       OfAll(cells_.leading_zeros, "begins", "begin"), " with a zero",
                       FirstOf(cells_.leading_zeros),
                       ": if these are codes, use --categorical=", Option()));
    }
  }

  void NoteLostDigits() {
    if (cells_.rounded.cells == 0) return;
    Add(NoteReason::kLostDigits,
        absl::StrCat(Called(), " has ", cells_.rounded.cells,
                     cells_.rounded.cells == 1
                         ? " integer beyond 2^53 that loses its last digits"
                         : " integers beyond 2^53 that lose their last digits",
                     FirstOf(cells_.rounded), ": if these are IDs, use --drop=", Option(),
                     " or --categorical=", Option()));
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
                           OfAll(cells_.not_dates, "is not a date like the others",
                                 "are not dates like the others"),
                           FirstOf(cells_.not_dates))
            : absl::StrCat("but ",
                           OfCells(like_dates, AllCells(), "looks like a date", "look like dates"),
                           FirstOf(cells_.odd_dates));
    Add(NoteReason::kDatesAsText,
        absl::StrCat(Called(), " is read as categories, which have no order, ", why, ": ",
                     kDateNotation));
  }

  void NoteDashes(Meaning meaning) {
    // Words such as "none" need no warning.
    std::vector<TextCount> dashes = cells_.dashes;
    std::erase_if(dashes, [](const TextCount& text) {
      return std::any_of(text.text.begin(), text.text.end(), IsLetterOrDigit);
    });
    if (dashes.empty()) return;
    const char* kind = meaning == Meaning::kDate      ? "dates"
                       : meaning == Meaning::kBoolean ? "booleans"
                                                      : "numbers";
    Add(NoteReason::kMissingMarks,
        absl::StrCat(Called(), " is read as ", kind, ", and ", Sum(dashes),
                     " of its cells as missing: ", ShowTexts(dashes)));
  }

  void Add(NoteReason reason, std::string text) {
    notes_.push_back({.column = name_, .reason = reason, .text = std::move(text)});
  }
  std::string Called() const { return absl::StrCat("column '", name_, "'"); }
  std::string Option() const { return AsOptionValue(name_); }
  int64_t AllCells() const { return cells_.cells(); }
  std::string OfAll(const CellCount& count, absl::string_view one, absl::string_view many) const {
    return OfCells(count.cells, AllCells(), one, many);
  }
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
  TextCellCounter texts;
  TextCounter dashes;
  TextCounter marks;
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (cell.empty()) continue;
    const bool as_category = missing.Matches(cell, ColumnKind::kCategorical);
    if (!missing.Matches(cell, ColumnKind::kNumeric)) {
      texts.Add(cell, row);
    } else if (!as_category) {
      // A number is a mark of the user in another notation.
      if (!ParseNumber(cell).has_value()) dashes.Add(cell, row);
    } else if (!missing.has_own()) {
      marks.Add(cell, row);
    }
  }
  return {texts.Finish(), dashes.Take(), marks.Take()};
}

ColumnType TypeOfCells(const CellCounts& cells) {
  switch (TypeOfTexts(cells)) {
    case TextType::kNumbers:
      if (cells.numbers > 0 || cells.dashes.empty()) return {.kind = ColumnKind::kNumeric};
      break;
    case TextType::kBooleans:
      return {.kind = ColumnKind::kNumeric, .meaning = Meaning::kBoolean};
    case TextType::kDates:
      return {.kind = ColumnKind::kNumeric, .meaning = Meaning::kDate};
    case TextType::kCategories:
      break;
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
    case NoteReason::kAllDistinct:
      return "ALL_DISTINCT";
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
      called, " is read as categories, and ", Sum(cells.marks),
      " of its cells as missing: ", ShowTexts(cells.marks),
      "; if these are categories, list the texts of missing cells with --missing=TEXT,..., or use "
      "--missing '' if there are none");
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
