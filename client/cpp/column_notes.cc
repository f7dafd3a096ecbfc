#include "client/cpp/column_notes.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"
#include "client/cpp/number_text.h"

namespace chorale::client {
namespace {

constexpr size_t kMostTexts = 3;       // that one note shows
constexpr size_t kMostTextBytes = 60;  // of a text that is shown
constexpr char kSpelling[] = "numbers are written like -1234.5";

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

std::vector<std::string> NotesOnCategories(const CsvTable& csv, int64_t column,
                                           const CellCounts& cells, TypeChoice choice) {
  std::vector<std::string> notes;
  const std::string called = absl::StrCat("column '", csv.names()[column], "'");
  if (choice == TypeChoice::kInferred && cells.other_cells > 0) {
    if (cells.numbers > 0) {
      notes.push_back(NoteOnMixture(csv, column, cells));
    } else if (2 * cells.odd_numbers.cells > cells.other_cells) {
      notes.push_back(absl::StrCat(
          called, " is read as categories, but ",
          CellsAre(cells.odd_numbers.cells, "looks like a number", "look like numbers"),
          " in another spelling, ", First(csv, column, cells.odd_numbers.first_row), ": ",
          kSpelling));
    } else if (2 * cells.dates.cells > cells.other_cells) {
      notes.push_back(
          absl::StrCat(called, " is read as categories, which have no order, but ",
                       CellsAre(cells.dates.cells, "looks like a date", "look like dates"), ", ",
                       First(csv, column, cells.dates.first_row),
                       ": give numbers, such as days since the first of them"));
    }
  }
  if (std::string note = NoteOnMarks(cells, called); !note.empty()) notes.push_back(note);
  return notes;
}

std::vector<std::string> NotesOnNumbers(const CsvTable& csv, int64_t column,
                                        const CellCounts& cells, TypeChoice choice) {
  std::vector<std::string> notes;
  const std::string called = absl::StrCat("column '", csv.names()[column], "'");
  const std::string option = AsOptionValue(csv.names()[column]);
  // Words among them, such as "none", tell what they are.
  std::vector<TextCount> dashes = cells.dashes;
  std::erase_if(dashes, [](const TextCount& text) {
    return std::any_of(text.text.begin(), text.text.end(), IsLetterOrDigit);
  });
  if (!dashes.empty() && choice == TypeChoice::kInferred) {
    notes.push_back(absl::StrCat(called, " is read as numbers, and ",
                                 CellsAre(Sum(dashes), "counts", "count"),
                                 " as missing: ", ShowTexts(dashes)));
  }
  if (cells.leading_zeros.cells > 0 && choice == TypeChoice::kInferred) {
    notes.push_back(absl::StrCat(
        called, " is read as numbers, but ", CellsAre(cells.leading_zeros.cells, "begins", "begin"),
        " with a zero, ", First(csv, column, cells.leading_zeros.first_row),
        "; if these are codes: --categorical=", option));
  }
  if (cells.rounded.cells > 0) {
    notes.push_back(absl::StrCat(
        called, ": ", CellsAre(cells.rounded.cells, "has", "have"),
        " more digits than a number keeps, ", First(csv, column, cells.rounded.first_row),
        "; if these are ids: --drop=", option, " or --categorical=", option));
  }
  return notes;
}

}  // namespace

CellCounts CountCells(const CsvTable& csv, int64_t column, const MissingMarks& missing) {
  CellCounts cells;
  TextCounter others;
  TextCounter dashes;
  TextCounter marks;
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
    } else if (ParseNumber(cell).has_value()) {
      ++cells.numbers;
      if (HasLeadingZero(cell)) cells.leading_zeros.Add(row);
      if (IsRoundedInteger(cell)) cells.rounded.Add(row);
    } else {
      ++cells.other_cells;
      others.Add(cell, row);
    }
  }
  cells.others = others.Take();
  cells.dashes = dashes.Take();
  cells.marks = marks.Take();
  for (const TextCount& text : cells.others) {
    if (LooksLikeNumber(text.text)) AddCells(text, &cells.odd_numbers);
    if (LooksLikeDate(text.text)) AddCells(text, &cells.dates);
  }
  return cells;
}

std::vector<std::string> NotesOnColumn(const CsvTable& csv, int64_t column, const CellCounts& cells,
                                       ColumnKind kind, TypeChoice choice) {
  return kind == ColumnKind::kCategorical ? NotesOnCategories(csv, column, cells, choice)
                                          : NotesOnNumbers(csv, column, cells, choice);
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
  const bool plain = std::all_of(cell.begin(), cell.end(), [](char c) {
    return IsLetterOrDigit(c) || absl::StrContains("_./:+@%-", absl::string_view(&c, 1));
  });
  if (plain) return cell;
  return absl::StrCat("'", absl::StrReplaceAll(cell, {{"'", R"('\'')"}}), "'");
}

}  // namespace chorale::client
