// The order in which a piece of work takes many rows through the model.
#ifndef CHORALE_ENGINE_BACKEND_LAYER_SCHEDULE_H_
#define CHORALE_ENGINE_BACKEND_LAYER_SCHEDULE_H_

#include <cstdint>

namespace chorale {

// Rows [first, first + rows).
struct RowRange {
  int64_t first = 0;
  int64_t rows = 0;
};

// All rows go through one phase before the first one enters the next, so that rows may read what
// every row has left in the phase before. Within a phase they are independent of each other: a
// batch takes any number of tasks from it.
//
// Thread contract: RowsOf may be called by any thread during a batch; the rest is the engine
// thread's, as in cpu::BatchedWork.
class LayerSchedule {
 public:
  // A task takes task_rows rows, a step takes step_tasks tasks; the last of a phase may take fewer.
  // REQUIRES: all are positive.
  LayerSchedule(int64_t phases, int64_t rows, int64_t task_rows, int64_t step_tasks = 1);

  bool done() const { return phase_ == phases_; }
  int64_t phase() const { return phase_; }

  // REQUIRES: not done, in these two.
  int64_t next_step_rows() const;
  // Steps from here on, at most to the end of that phase, that take no more rows than the next one.
  int64_t StepsThrough(int64_t last_phase) const;

  // As in cpu::BatchedWork. A batch stays within a phase.
  int64_t BeginBatch(int64_t max_steps);
  RowRange RowsOf(int64_t task) const;
  int64_t EndBatch();

 private:
  int64_t phases_;
  int64_t rows_;
  int64_t task_rows_;
  int64_t step_rows_;

  int64_t phase_ = 0;
  int64_t rows_done_ = 0;  // in this phase
  int64_t batch_rows_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_LAYER_SCHEDULE_H_
