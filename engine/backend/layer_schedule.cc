#include "engine/backend/layer_schedule.h"

#include <algorithm>

#include "base/integer_math.h"

namespace chorale {

RowPhases::RowPhases(int64_t phases, int64_t rows, int64_t task_rows, int64_t step_tasks)
    : phases_(phases), rows_(rows), task_rows_(task_rows), step_rows_(task_rows * step_tasks) {}

int64_t RowPhases::next_step_rows() const { return std::min(step_rows_, rows_ - rows_done_); }

int64_t RowPhases::StepsThrough(int64_t last_phase) const {
  const int64_t left = CeilDiv(rows_ - rows_done_, step_rows_);  // of this phase
  if (next_step_rows() < std::min(step_rows_, rows_)) return left;
  return left + (last_phase - phase_) * CeilDiv(rows_, step_rows_);
}

int64_t RowPhases::BeginRound(int64_t max_steps) {
  const int64_t steps = std::min(max_steps, StepsThrough(phase_));
  round_rows_ = std::min(rows_ - rows_done_, steps * step_rows_);
  return CeilDiv(round_rows_, task_rows_);
}

RowRange RowPhases::RowsOf(int64_t task) const {
  const int64_t first = task * task_rows_;  // of the round
  return {.first = rows_done_ + first, .rows = std::min(task_rows_, round_rows_ - first)};
}

int64_t RowPhases::EndRound() {
  const int64_t steps = CeilDiv(round_rows_, step_rows_);
  rows_done_ += round_rows_;
  if (rows_done_ == rows_) {
    rows_done_ = 0;
    ++phase_;
  }
  return steps;
}

}  // namespace chorale
