// The order of the stages of an encoding, and the costs of its steps.
#ifndef CHORALE_ENGINE_BACKEND_CPU_ENCODE_SCHEDULE_H_
#define CHORALE_ENGINE_BACKEND_CPU_ENCODE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/layer_schedule.h"
#include "engine/backend/row_encoder/row_encoder.h"

namespace chorale::cpu {

enum class EncodeStage {
  kFit,    // tasks of the fit of the row encoder; only without a prefix
  kCopy,   // rows of the prefix, whose K and V are copied layer by layer
  kBlock,  // rows of one block (engine/backend/encode_blocks.h), layer by layer
};

// The stages in the order above, with a stage for each block that the prefix does not contain. Each
// stage is complete before the next one begins.
//
// Thread contract: that of LayerSchedule.
class EncodeSchedule {
 public:
  // `fit` is that of the row encoder, null with a prefix. `threads` determines the number of tasks
  // per step. REQUIRES: the shape of `spec` is not reduced.
  EncodeSchedule(const EncodeSpec& spec, const RowEncoderFit* fit, int threads);

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
  // Rows of the context, or tasks of the fit.
  RowRange RowsOf(int64_t task) const;
  int64_t EndBatch();

 private:
  struct Stage {
    EncodeStage stage;
    RowRange rows;
    LayerSchedule schedule;  // phase l is layer l; the fit has a single phase
  };

  const LayerSchedule& schedule() const { return stages_[current_].schedule; }

  std::vector<Stage> stages_;
  size_t current_ = 0;
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_ENCODE_SCHEDULE_H_
