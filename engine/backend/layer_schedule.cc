#include "engine/backend/layer_schedule.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"

namespace chorale {

LayerSchedule::LayerSchedule(std::vector<double> row_flops, int64_t rows, int64_t task_rows,
                             int64_t step_tasks)
    : row_flops_(std::move(row_flops)),
      rows_(rows),
      task_rows_(task_rows),
      step_rows_(task_rows * step_tasks) {}

double LayerSchedule::next_flops(int64_t steps) const {
  double flops = 0;
  int64_t left = rows_ - rows_done_;
  for (size_t phase = phase_; steps > 0 && phase < row_flops_.size(); ++phase, left = rows_) {
    const int64_t of_phase = std::min(steps, CeilDiv(left, step_rows_));
    flops += static_cast<double>(std::min(of_phase * step_rows_, left)) * row_flops_[phase];
    steps -= of_phase;
  }
  return flops;
}

int64_t LayerSchedule::steps_at_this_cost() const {
  if (done()) return 0;
  size_t last = phase_;
  while (last + 1 < row_flops_.size() && row_flops_[last + 1] == row_flops_[phase_]) ++last;
  return StepsThrough(static_cast<int64_t>(last));
}

int64_t LayerSchedule::next_step_rows() const { return std::min(step_rows_, rows_ - rows_done_); }

int64_t LayerSchedule::StepsThrough(int64_t last_phase) const {
  const int64_t left = CeilDiv(rows_ - rows_done_, step_rows_);  // of this phase
  if (next_step_rows() < std::min(step_rows_, rows_)) return left;
  return left + (last_phase - phase_) * CeilDiv(rows_, step_rows_);
}

int64_t LayerSchedule::BeginBatch(int64_t max_steps) {
  const int64_t steps = std::min(max_steps, StepsThrough(phase_));
  batch_rows_ = std::min(rows_ - rows_done_, steps * step_rows_);
  return CeilDiv(batch_rows_, task_rows_);
}

RowRange LayerSchedule::RowsOf(int64_t task) const {
  const int64_t first = task * task_rows_;  // of the batch
  return {.first = rows_done_ + first, .rows = std::min(task_rows_, batch_rows_ - first)};
}

int64_t LayerSchedule::EndBatch() {
  const int64_t steps = CeilDiv(batch_rows_, step_rows_);
  rows_done_ += batch_rows_;
  if (rows_done_ == rows_) {
    rows_done_ = 0;
    ++phase_;
  }
  return steps;
}

}  // namespace chorale
