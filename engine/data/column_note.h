// Warnings about a column: its input that was changed or is suspicious.
#ifndef CHORALE_ENGINE_DATA_COLUMN_NOTE_H_
#define CHORALE_ENGINE_DATA_COLUMN_NOTE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace chorale {

struct ColumnNote {
  std::string column;
  // The column was dropped as uninformative: all of its cells in the context are equal, or all are
  // missing.
  bool left_out = false;
  int64_t ignored = 0;          // cells of a dropped column that differ from the context's
  int64_t outside_bulk = 0;     // cells far beyond the other cells of the context
  int64_t clipped_targets = 0;  // target values treated as errors and clipped
  // The set to which samples and quantiles of the target are snapped (TargetSupport::description),
  // or empty.
  std::string snapped_to = {};
  // Appended target values that are not in this set, which is that of the rows before them.
  int64_t beyond_support = 0;
  int64_t replaced_by_nearest = 0;  // numbers replaced by the nearest number of the context
  int64_t unknown_categories = 0;   // cells with an unknown category, treated as missing
  // If no cell of the column has a category of the context: the first categories of the context,
  // and the count of its categories.
  std::vector<std::string> known_categories = {};
  int64_t known_category_count = 0;
  // The period of the season that the target has by this column, in steps; 0: no season was found.
  // The model gets an additional column (engine/data/season.h).
  double season_steps = 0;
  double season_months = 0;  // the period in calendar months, if the column counts months

  // A sentence that states why a column of dates was not used as a running index, or empty.
  std::string no_index = {};

  // A sentence that states which limit of the model's training the table exceeds, or empty. The
  // note is then not about a column, whose name is empty.
  std::string beyond_training = {};

  bool empty() const {
    return !left_out && season_steps == 0 && snapped_to.empty() && no_index.empty() &&
           beyond_training.empty() &&
           ignored + outside_bulk + clipped_targets + replaced_by_nearest + unknown_categories == 0;
  }
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_COLUMN_NOTE_H_
