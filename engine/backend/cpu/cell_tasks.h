// The tasks of the phase MemoryStage::kSpreadCells.
#ifndef CHORALE_ENGINE_BACKEND_CPU_CELL_TASKS_H_
#define CHORALE_ENGINE_BACKEND_CPU_CELL_TASKS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/host/divide_centres.h"

namespace chorale::cpu {

// Cells [first_cell, end_cell) of a head, or some of the centres of one cell.
struct CellTask {
  int64_t head = 0;
  int64_t first_cell = 0;
  int64_t end_cell = 0;
  int64_t first_centre = 0;  // in each cell; not 0 of a single cell only
  int64_t most_centres = 0;  // the task draws at most so many in each cell
  int64_t pairs = 0;         // of a key and a centre
};

// Cells have any number of keys, from 1 to nearly all. A task has about as many pairs as wanted, or
// one cell; a cell with more is divided into several tasks. These are in different rounds, because
// one continues the other: all tasks of a round are complete before the next begins.
class CellTasks {
 public:
  CellTasks() = default;
  // Of all heads.
  CellTasks(absl::Span<const CentreCells> heads, int64_t pairs_of_task);

  int64_t rounds() const { return static_cast<int64_t>(rounds_.size()); }
  absl::Span<const CellTask> Round(int64_t round) const { return rounds_[round]; }
  // The share of a round in all pairs.
  double Share(int64_t round) const;

 private:
  void AddHead(int64_t head, const CentreCells& cells, int64_t pairs_of_task);
  void Add(int64_t round, const CellTask& task);

  std::vector<std::vector<CellTask>> rounds_;  // none is empty
  int64_t pairs_ = 0;                          // of all rounds
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_CELL_TASKS_H_
