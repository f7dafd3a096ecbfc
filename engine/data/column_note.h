// What of a column was not taken as it stands, for people to be told.
#ifndef CHORALE_ENGINE_DATA_COLUMN_NOTE_H_
#define CHORALE_ENGINE_DATA_COLUMN_NOTE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace chorale {

struct ColumnNote {
  std::string column;
  // The column says nothing, since all of its cells in the context are equal, or missing: it was
  // left out.
  bool left_out = false;
  int64_t ignored = 0;        // cells of a column left out that differ from the context's
  int64_t outside_bulk = 0;   // cells much farther out than the others of the context
  int64_t wrong_targets = 0;  // values of the target taken for errors and brought back
  // What draws and quantiles of the target are snapped to (TargetSupport::description); or empty.
  std::string snapped_to = {};
  int64_t replaced_by_nearest = 0;  // numbers taken for the nearest that the context has
  int64_t unknown_categories = 0;   // cells whose category the context does not have: as missing
  // Where these are all cells that the column has: the first categories of the context, and how
  // many it has.
  std::vector<std::string> known_categories = {};
  int64_t known_category_count = 0;
  // Steps of the season that the target has by this column, which counts time; 0: none was found.
  // The model gets one column more (engine/data/season.h).
  double season_steps = 0;
  double season_months = 0;  // the same in calendar months, where the column counts these

  // A sentence on why a column of dates was not taken as an index of time; or empty.
  std::string no_index = {};

  bool empty() const {
    return !left_out && season_steps == 0 && snapped_to.empty() && no_index.empty() &&
           ignored + outside_bulk + wrong_targets + replaced_by_nearest + unknown_categories == 0;
  }
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_COLUMN_NOTE_H_
