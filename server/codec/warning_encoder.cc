#include "server/codec/warning_encoder.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/names.h"

namespace chorale {
namespace {

using Warnings = google::protobuf::RepeatedPtrField<v1::Warning>;

v1::Warning::Severity SeverityOf(v1::Warning::Reason reason) {
  switch (reason) {
    case v1::Warning::REASON_SEASON:
    case v1::Warning::REASON_SNAPPED:
    case v1::Warning::REASON_READ_AS_DATES:
      return v1::Warning::SEVERITY_INFO;
    default:
      return v1::Warning::SEVERITY_WARNING;
  }
}

std::string Cells(int64_t count, absl::string_view one, absl::string_view many) {
  return absl::StrCat(count, count == 1 ? " cell " : " cells ", count == 1 ? one : many);
}

std::string UnknownCategories(const ColumnNote& note, RowUse use) {
  const int64_t cells = note.unknown_categories;
  const bool appended = use == RowUse::kAppended;
  const absl::string_view until = appended ? " until the context is encoded anew" : "";
  if (note.known_categories.empty()) {
    return absl::StrCat(Cells(cells, "has a category", "have categories"), " that ",
                        appended ? "the base rows of the context do" : "the context does",
                        " not contain, and ", cells == 1 ? "is treated" : "are treated",
                        " as missing", until);
  }
  std::string known;
  for (const std::string& category : note.known_categories) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", QuoteName(category));
  }
  const auto shown = static_cast<int64_t>(note.known_categories.size());
  return absl::StrCat("none of its ", cells, cells == 1 ? " cell" : " cells",
                      " contains a category of ", appended ? "the base rows of " : "",
                      "the context, so all are treated as missing", until, "; ",
                      appended ? "the base rows have " : "the context has ", known,
                      note.known_category_count > shown ? ", ..." : "");
}

// Of a season.
std::string Length(const ColumnNote& note) {
  return note.season_months > 0 ? absl::StrCat(note.season_months, " months")
                                : absl::StrCat(note.season_steps, " steps");
}

// Adds warnings while there is room for them.
class WarningWriter {
 public:
  explicit WarningWriter(Warnings* warnings) : warnings_(warnings) {}

  // `what` follows the column's name, which is empty if the warning is not about a column.
  void Add(v1::Warning::Reason reason, const std::string& column, int64_t cells,
           absl::string_view what) {
    v1::Warning warning;
    warning.set_reason(reason);
    warning.set_severity(SeverityOf(reason));
    warning.set_column(column);
    warning.set_cell_count(cells);
    warning.set_message(column.empty() ? std::string(what)
                                       : absl::StrCat("column ", QuoteName(column), ": ", what));
    constexpr int64_t kPerField = 8;  // tag and length
    bytes_ += static_cast<int64_t>(warning.ByteSizeLong()) + kPerField;
    constexpr int64_t kLast = 128;
    if (left_out_ > 0 || bytes_ > kMaxWarningBytes - kLast) {
      ++left_out_;
    } else {
      *warnings_->Add() = std::move(warning);
    }
  }

  void Finish() {
    if (left_out_ == 0) return;
    v1::Warning* const last = warnings_->Add();
    last->set_message(absl::StrCat("and ", left_out_, " more warnings"));
    last->set_severity(SeverityOf(last->reason()));
  }

 private:
  Warnings* const warnings_;
  int64_t bytes_ = 0;
  int64_t left_out_ = 0;
};

v1::Warning::Reason EncodeReason(TextReason reason) {
  switch (reason) {
    case TextReason::kReadAsDates:
      return v1::Warning::REASON_READ_AS_DATES;
    case TextReason::kNumbersAsText:
      return v1::Warning::REASON_NUMBERS_AS_TEXT;
    case TextReason::kDatesAsText:
      return v1::Warning::REASON_DATES_AS_TEXT;
    case TextReason::kDatesAsNumbers:
      return v1::Warning::REASON_DATES_AS_NUMBERS;
    case TextReason::kMixedTypes:
      return v1::Warning::REASON_MIXED_TYPES;
    case TextReason::kAllDistinct:
      return v1::Warning::REASON_ALL_DISTINCT;
    case TextReason::kLeadingZeros:
      return v1::Warning::REASON_LEADING_ZEROS;
    case TextReason::kLargeIntegers:
      return v1::Warning::REASON_LARGE_INTEGERS;
  }
  return v1::Warning::REASON_UNSPECIFIED;
}

}  // namespace

void EncodeTableWarnings(absl::Span<const TextWarning> texts, const std::string& target,
                         int64_t dropped_rows, Warnings* warnings) {
  WarningWriter writer(warnings);
  if (dropped_rows > 0) {
    writer.Add(
        v1::Warning::REASON_DROPPED_ROWS, target, dropped_rows,
        absl::StrCat(dropped_rows, dropped_rows == 1 ? " row" : " rows", " without a target value ",
                     dropped_rows == 1 ? "was" : "were", " dropped"));
  }
  for (const TextWarning& text : texts) {
    writer.Add(EncodeReason(text.reason), text.column, text.cells, text.message);
  }
  writer.Finish();
}

void EncodeWarnings(absl::Span<const ColumnNote> notes, Warnings* warnings, RowUse use) {
  WarningWriter writer(warnings);
  for (const ColumnNote& note : notes) {
    if (note.left_out) {
      const std::string effect =
          note.ignored == 0 ? ""
                            : absl::StrCat("; ", Cells(note.ignored, "has", "have"), " no effect");
      writer.Add(
          v1::Warning::REASON_DROPPED_COLUMN, note.column, note.ignored,
          absl::StrCat(
              "all of its cells in the context are equal or missing, so the column is dropped",
              effect));
    }
    if (note.season_steps > 0) {
      writer.Add(v1::Warning::REASON_SEASON, note.column, 0,
                 absl::StrCat("the target has a season of ", Length(note),
                              " by this column: the model also receives the phase of each row"));
    }
    if (!note.no_index.empty()) {
      writer.Add(v1::Warning::REASON_NO_INDEX, note.column, 0, note.no_index);
    }
    if (!note.beyond_training.empty()) {
      writer.Add(v1::Warning::REASON_BEYOND_TRAINING, note.column, 0, note.beyond_training);
    }
    if (note.outside_bulk > 0) {
      writer.Add(v1::Warning::REASON_OUTLIERS, note.column, note.outside_bulk,
                 absl::StrCat(Cells(note.outside_bulk, "lies", "lie"),
                              " far beyond the bulk of the context's values: the excess distance "
                              "is compressed to its logarithm"));
    }
    if (note.clipped_targets > 0) {
      writer.Add(v1::Warning::REASON_CLIPPED_TARGET, note.column, note.clipped_targets,
                 absl::StrCat(note.clipped_targets, " of the context's values ",
                              note.clipped_targets == 1 ? "lies" : "lie",
                              " so far from all others that the model clips the distance to the "
                              "farthest of the others: means and sums do not include the excess"));
    }
    if (note.beyond_support > 0) {
      writer.Add(
          v1::Warning::REASON_SNAPPED, note.column, note.beyond_support,
          absl::StrCat(note.beyond_support, " of the appended values ",
                       note.beyond_support == 1 ? "is" : "are",
                       " not among the possible values of the earlier rows: ", note.snapped_to,
                       "; draws and quantiles are snapped to these, so encode the context "
                       "anew if they are to include others"));
    } else if (!note.snapped_to.empty()) {
      writer.Add(v1::Warning::REASON_SNAPPED, note.column, 0,
                 absl::StrCat("the target has repeated values in the context, so draws and "
                              "quantiles are snapped to ",
                              note.snapped_to,
                              "; means, standard deviations, mixtures and densities refer to the "
                              "continuous distribution"));
    }
    if (note.replaced_by_nearest > 0) {
      writer.Add(v1::Warning::REASON_NEAREST_VALUE, note.column, note.replaced_by_nearest,
                 absl::StrCat("nearly all of its cells in the context are equal; ",
                              Cells(note.replaced_by_nearest,
                                    "with a value that the context does not contain is treated",
                                    "with values that the context does not contain are treated"),
                              " as the nearest value of the context"));
    }
    if (note.unknown_categories > 0) {
      writer.Add(v1::Warning::REASON_UNKNOWN_CATEGORY, note.column, note.unknown_categories,
                 UnknownCategories(note, use));
    }
  }
  writer.Finish();
}

}  // namespace chorale
