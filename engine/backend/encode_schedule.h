// The order of the stages of an encoding, and the costs of its steps.
#ifndef CHORALE_ENGINE_BACKEND_ENCODE_SCHEDULE_H_
#define CHORALE_ENGINE_BACKEND_ENCODE_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/layer_schedule.h"

namespace chorale {

enum class EncodeStage {
  kFit,    // tasks of the fit of the row encoder; only without a prefix
  kCopy,   // rows of the prefix, whose K and V are copied layer by layer
  kBlock,  // rows of one block (engine/backend/encode_blocks.h), layer by layer
};

// How a backend divides the stages into tasks and steps.
struct EncodeTasks {
  // Of kFit; a step is a single task. 0 with a prefix.
  int64_t fit_tasks = 0;
  double fit_task_flops = 0;
  int64_t copied_rows = 1;                          // of a task of kCopy
  std::function<int64_t(int64_t keys)> block_rows;  // of a task of kBlock whose rows attend to keys
  int64_t step_tasks = 1;                           // of kCopy and kBlock
  // A block consists of whole tiles of the rows of the table, among them rows before and after the
  // block. REQUIRES: the numbers of rows of a task are multiples of it.
  int64_t tile_rows = 1;
  double row_encoder_flops = 0;  // of a row, in layer 0
};

// The stages in the order above, with a stage for each block that the prefix does not contain. Each
// stage is complete before the next one begins.
//
// Thread contract: that of LayerSchedule.
class EncodeSchedule {
 public:
  // REQUIRES: what RequireEncodeSpec verifies.
  EncodeSchedule(const EncodeSpec& spec, const EncodeTasks& tasks);

  bool done() const { return current_ == stages_.size(); }
  int64_t stage_index() const { return static_cast<int64_t>(current_); }
  // REQUIRES for the next four methods: not done.
  EncodeStage stage() const { return stages_[current_].stage; }
  RowRange rows() const { return stages_[current_].rows; }  // of the stage
  int64_t layer() const { return schedule().phase(); }
  bool last_stage() const { return current_ + 1 == stages_.size(); }

  // See LayerSchedule.
  double next_step_flops() const { return next_flops(1); }
  double next_flops(int64_t steps) const { return done() ? 0 : schedule().next_flops(steps); }
  int64_t steps_at_this_cost() const { return done() ? 0 : schedule().steps_at_this_cost(); }
  int64_t BeginBatch(int64_t max_steps) { return stages_[current_].schedule.BeginBatch(max_steps); }
  // Rows of the context, in whole tiles, or tasks of the fit.
  RowRange RowsOf(int64_t task) const;
  int64_t EndBatch();

 private:
  struct Stage {
    EncodeStage stage;
    RowRange rows;
    int64_t first;           // row of the first task
    LayerSchedule schedule;  // phase l is layer l; the fit has a single phase
  };

  const LayerSchedule& schedule() const { return stages_[current_].schedule; }

  std::vector<Stage> stages_;
  size_t current_ = 0;
};

// Stops the process unless the context is not reduced, y is complete, and the prefix is a resident
// context of the same model that is not reduced.
void RequireEncodeSpec(const EncodeSpec& spec);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_ENCODE_SCHEDULE_H_
