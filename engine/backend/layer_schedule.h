// The order in which work processes many rows of the model, and the costs of its steps.
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

// All rows complete a phase before the first row enters the next, so that a row may read the
// results of any row in the previous phase. Within a phase rows are independent: a batch has any
// number of tasks of the phase.
//
// Thread contract: any thread may call RowsOf during a batch; only the engine thread calls the
// other methods, as in cpu::BatchedWork.
class LayerSchedule {
 public:
  // There is a phase for each element of `row_flops`, the FLOPs of one row in the phase. A task
  // processes task_rows rows, and a step has step_tasks tasks; the last task and step of a phase
  // may be smaller. REQUIRES: at least one phase; all numbers are positive.
  LayerSchedule(std::vector<double> row_flops, int64_t rows, int64_t task_rows,
                int64_t step_tasks = 1);

  bool done() const { return phase_ == static_cast<int64_t>(row_flops_.size()); }
  int64_t phase() const { return phase_; }

  // See Work; 0 if done. next_flops counts the rows that the steps process: the last step of a
  // phase may be shorter than the others.
  double next_step_flops() const { return next_flops(1); }
  double next_flops(int64_t steps) const;
  int64_t steps_at_this_cost() const;

  // REQUIRES for both methods: not done.
  int64_t next_step_rows() const;
  // The number of steps from the next step on, at most to the end of phase last_phase, that process
  // no more rows than the next step.
  int64_t StepsThrough(int64_t last_phase) const;

  // See cpu::BatchedWork. A batch stays within a phase.
  int64_t BeginBatch(int64_t max_steps);
  RowRange RowsOf(int64_t task) const;
  RowRange BatchRows() const { return {.first = rows_done_, .rows = batch_rows_}; }  // of all tasks
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
