#include "engine/backend/cpu/cell_tasks.h"

#include <algorithm>
#include <limits>

#include "kernels/ops/spread_keys.h"

namespace chorale::cpu {

CellTasks::CellTasks(absl::Span<const CentreCells> heads, int64_t pairs_of_task) {
  for (size_t head = 0; head < heads.size(); ++head) {
    AddHead(static_cast<int64_t>(head), heads[head], pairs_of_task);
  }
}

void CellTasks::AddHead(int64_t head, const CentreCells& cells, int64_t pairs_of_task) {
  constexpr int64_t kAtOnce = kernels::kCentresAtOnce;
  CellTask open = {.head = head, .most_centres = std::numeric_limits<int64_t>::max()};
  for (int64_t cell = 0; cell < cells.cells(); ++cell) {
    const int64_t keys = cells.keys(cell);
    const int64_t centres = cells.centres(cell);
    const bool large = keys * centres > pairs_of_task;
    if (large || open.pairs + keys * centres > pairs_of_task) {
      if (open.pairs > 0) Add(0, open);
      open.first_cell = open.end_cell = cell;
      open.pairs = 0;
    }
    if (!large) {
      open.end_cell = cell + 1;
      open.pairs += keys * centres;
      continue;
    }
    const int64_t most = std::max<int64_t>(1, pairs_of_task / keys / kAtOnce) * kAtOnce;
    for (int64_t first = 0; first < centres; first += most) {
      Add(first / most, {.head = head,
                         .first_cell = cell,
                         .end_cell = cell + 1,
                         .first_centre = first,
                         .most_centres = most,
                         .pairs = keys * std::min(most, centres - first)});
    }
    open.first_cell = open.end_cell = cell + 1;
  }
  if (open.pairs > 0) Add(0, open);
}

void CellTasks::Add(int64_t round, const CellTask& task) {
  if (round == rounds()) rounds_.emplace_back();
  rounds_[round].push_back(task);
  pairs_ += task.pairs;
}

double CellTasks::Share(int64_t round) const {
  int64_t pairs = 0;
  for (const CellTask& task : rounds_[round]) pairs += task.pairs;
  return static_cast<double>(pairs) / static_cast<double>(pairs_);
}

}  // namespace chorale::cpu
