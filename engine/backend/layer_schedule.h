// The order in which work takes many rows through the model, and what its steps cost.
#ifndef CHORALE_ENGINE_BACKEND_LAYER_SCHEDULE_H_
#define CHORALE_ENGINE_BACKEND_LAYER_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace chorale {

// Rows [first, first + rows).
struct RowRange {
  int64_t first = 0;
  int64_t rows = 0;
};

// All rows go through one phase before the first one enters the next, so that a row may read what
// any row wrote in the phase before. Within a phase rows are independent of each other: a batch
// takes any number of tasks from it.
//
// Thread contract: RowsOf may be called by any thread during a batch; the rest is the engine
// thread's, as in cpu::BatchedWork.
class LayerSchedule {
 public:
  // There is a phase for each of `row_flops`, the FLOPs of one row in it. A task takes task_rows
  // rows, a step takes step_tasks tasks; the last of a phase may take fewer.
  // REQUIRES: at least one phase; all numbers are positive.
  LayerSchedule(std::vector<double> row_flops, int64_t rows, int64_t task_rows,
                int64_t step_tasks = 1);

  bool done() const { return phase_ == static_cast<int64_t>(row_flops_.size()); }
  int64_t phase() const { return phase_; }

  // As Work defines them: 0 when done.
  double next_step_flops() const;
  int64_t steps_at_this_cost() const;

  // REQUIRES: not done, in these two.
  int64_t next_step_rows() const;
  // Steps from here on, at most to the end of that phase, that take no more rows than the next one.
  int64_t StepsThrough(int64_t last_phase) const;

  // As in cpu::BatchedWork. A batch stays within a phase.
  int64_t BeginBatch(int64_t max_steps);
  RowRange RowsOf(int64_t task) const;
  int64_t EndBatch();

 private:
  std::vector<double> row_flops_;  // of each phase
  int64_t rows_;
  int64_t task_rows_;
  int64_t step_rows_;

  int64_t phase_ = 0;
  int64_t rows_done_ = 0;  // in this phase
  int64_t batch_rows_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_LAYER_SCHEDULE_H_
