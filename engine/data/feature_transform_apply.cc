// FeatureTransform::Apply.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "engine/data/column_validation.h"
#include "engine/data/feature_transform.h"

namespace chorale {
namespace {

void Impute(float value, int64_t cell, FeatureMatrix* matrix) {
  matrix->x[cell] = value;
  matrix->missing.resize(matrix->x.size());
  matrix->missing[cell] = 1;
}

// The number of `sorted` that is nearest to x; the smaller of two equally near numbers. REQUIRES:
// `sorted` is not empty.
double Nearest(absl::Span<const double> sorted, double x) {
  const auto* const above = std::lower_bound(sorted.begin(), sorted.end(), x);
  if (above == sorted.begin()) return sorted.front();
  if (above == sorted.end()) return sorted.back();
  const double below = *std::prev(above);
  // Halves, so that neither difference overflows.
  return x / 2 - below / 2 <= *above / 2 - x / 2 ? below : *above;
}

}  // namespace

absl::Status FeatureTransform::ApplyNumbers(const ColumnTransform& fitted, const Column& column,
                                            int64_t feature, FeatureMatrix* matrix,
                                            ColumnNote* note) {
  int64_t cell = feature;
  for (size_t row = 0; row < column.numbers.size(); ++row, cell += matrix->features) {
    double number = column.numbers[row];
    if (std::isnan(number)) {
      Impute(fitted.scaled_fill, cell, matrix);
      continue;
    }
    if (!fitted.seen.empty()) {
      const double nearest = Nearest(fitted.seen, number);
      if (nearest != number) ++note->replaced_by_nearest;
      number = nearest;
    } else if (fitted.IsFar(number)) {
      ++note->outside_bulk;
    }
    matrix->x[cell] = static_cast<float>(fitted.Scale(number));
    if (!std::isfinite(matrix->x[cell])) {
      return ScaledTooLarge(kQueryTable, column.name, static_cast<int64_t>(row), number);
    }
  }
  return absl::OkStatus();
}

void FeatureTransform::ApplyCategories(const ColumnTransform& fitted, const Column& column,
                                       int64_t feature, FeatureMatrix* matrix, ColumnNote* note) {
  matrix->categorical.resize(matrix->features);
  matrix->categorical[feature] = 1;
  std::vector<float> by_code;  // the value of each of the table's own categories; NaN if unknown
  by_code.reserve(column.categories.size());
  for (const std::string& category : column.categories) {
    const int64_t code = fitted.categories.Find(category);
    by_code.push_back(code == CategoryLookup::kUnknown
                          ? NAN
                          : static_cast<float>(fitted.Scale(static_cast<double>(code))));
  }
  int64_t cell = feature;
  bool any_known = false;
  for (const int32_t code : column.codes) {
    const bool missing = code == kMissingCode;
    if (missing || std::isnan(by_code[code])) {
      if (!missing) ++note->unknown_categories;
      Impute(fitted.scaled_fill, cell, matrix);
    } else {
      matrix->x[cell] = by_code[code];
      any_known = true;
    }
    cell += matrix->features;
  }
  if (any_known || note->unknown_categories == 0) return;
  constexpr size_t kShown = 3;
  const std::vector<std::string>& known = fitted.categories.categories();
  note->known_categories.assign(known.begin(), known.begin() + std::min(kShown, known.size()));
  note->known_category_count = static_cast<int64_t>(known.size());
}

// The count of cells that differ from those of a context in which all are equal.
int64_t FeatureTransform::CountDifferent(const ColumnTransform& fitted, const Column& column) {
  const bool empty = fitted.seen.empty() && fitted.categories.categories().empty();
  std::vector<bool> equal;  // of the table's own categories
  equal.reserve(column.categories.size());
  for (const std::string& category : column.categories) {
    equal.push_back(fitted.categories.Find(category) != CategoryLookup::kUnknown);
  }
  int64_t count = 0;
  for (const double number : column.numbers) {
    const bool same =
        std::isnan(number) ? empty : !fitted.seen.empty() && number == fitted.seen.front();
    count += same ? 0 : 1;
  }
  for (const int32_t code : column.codes) {
    const bool same = code == kMissingCode ? empty : equal[code];
    count += same ? 0 : 1;
  }
  return count;
}

absl::StatusOr<FeatureMatrix> FeatureTransform::Apply(const Table& table,
                                                      std::vector<ColumnNote>* notes,
                                                      ExtraColumns extra) const {
  ASSIGN_OR_RETURN(QueryColumns matched, MatchQueryRows(names_, table, extra));
  FeatureMatrix matrix;
  matrix.rows = table.rows();
  const int64_t kept =
      absl::c_count_if(columns_, [](const ColumnTransform& column) { return !column.left_out; });
  const int64_t added = (season_.has_value() ? 1 : 0) + static_cast<int64_t>(calendar_.size());
  matrix.features = std::max<int64_t>(kept + added, 1);  // row encoders need at least one
  matrix.x.resize(static_cast<size_t>(matrix.rows * matrix.features));
  int64_t feature = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const ColumnTransform& fitted = columns_[i];
    const Column& column = matched[i];
    ColumnNote note;
    note.column = fitted.name;
    if (fitted.left_out) {
      note.ignored = CountDifferent(fitted, column);
      note.left_out = note.ignored > 0;
    } else if (column.type == ColumnType::kNumeric) {
      RETURN_IF_ERROR(ApplyNumbers(fitted, column, feature++, &matrix, &note));
    } else {
      ApplyCategories(fitted, column, feature++, &matrix, &note);
    }
    if (notes != nullptr && !note.empty()) notes->push_back(std::move(note));
  }
  ColumnNote unused;  // the warnings of the column of dates or the running index suffice
  for (const CalendarTransform& calendar : calendar_) {
    const Column values = CalendarColumn(matched[calendar.column], calendar.feature);
    RETURN_IF_ERROR(ApplyNumbers(calendar.values, values, feature++, &matrix, &unused));
  }
  if (season_.has_value()) {
    const Column phases = PhasesOf(matched[season_->season.column], season_->season);
    RETURN_IF_ERROR(ApplyNumbers(season_->phase, phases, feature, &matrix, &unused));
  }
  return matrix;
}

absl::StatusOr<std::vector<ColumnNote>> FeatureTransform::CheckAppendedRows(
    const AppendedRows& rows) const {
  std::vector<ColumnNote> notes;
  RETURN_IF_ERROR(Apply(rows.features, &notes).status());
  ColumnNote of_target;
  of_target.column = target_note_.column;
  RETURN_IF_ERROR(CheckTargets(rows.y, &of_target));
  of_target.beyond_support = absl::c_count_if(rows.y, [this](double y) {
    return target_bound_.Contains(y) && !target_support_.Contains(y);
  });
  if (of_target.beyond_support > 0) of_target.snapped_to = target_support_.description();
  if (!of_target.empty()) notes.push_back(std::move(of_target));
  return notes;
}

}  // namespace chorale
