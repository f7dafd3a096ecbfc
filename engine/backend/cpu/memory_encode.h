// Encodes reduced contexts (engine/backend/memory_plan.h).
#ifndef CHORALE_ENGINE_BACKEND_CPU_MEMORY_ENCODE_H_
#define CHORALE_ENGINE_BACKEND_CPU_MEMORY_ENCODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/cell_tasks.h"
#include "engine/backend/cpu/context_layout.h"
#include "engine/backend/cpu/memory_workspace.h"
#include "engine/backend/cpu/work.h"
#include "engine/backend/host/aligned_buffer.h"
#include "engine/backend/layer_schedule.h"
#include "engine/backend/memory_plan.h"

namespace chorale::cpu {

// First fits the row encoder to the rows before the first append, then runs the phases of the plan,
// segment by segment and layer by layer. The set of each layer is in the context pool between its
// segments; the tokens of a segment, and the keys of one layer of it, are in separate host memory.
// A prefix has fitted the row encoder, and its set is the one before the first segment.
//
// Thread contract: see BatchedWork. Tasks of one batch process different rows, keys or heads.
class MemoryEncodeWork : public chorale::EncodeWork, public BatchedWork {
 public:
  // `pool` is the context pool's memory at spec.kv, `prefix` that of spec.prefix, or null;
  // `threads` determines the number of tasks per step. REQUIRES: spec.shape().reduced().
  MemoryEncodeWork(EncodeSpec spec, float* pool, int threads, const float* prefix);

  bool done() const override { return segment_ == plan_.segments(); }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  double next_flops(int64_t steps) const override { return schedule_.next_flops(steps); }
  int64_t steps_at_this_cost() const override { return schedule_.steps_at_this_cost(); }
  ResidentContext TakeContext() override;

  int64_t BeginBatch(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, Scratch& scratch) override;
  int64_t EndBatch() override;

 private:
  bool fitted() const { return fit_ == nullptr; }
  const MemoryPhase& phase() const { return phases_[phase_]; }
  // Whether a task processes all units of the batch, for one head.
  bool by_head() const { return fitted() && phase().stage == MemoryStage::kSpread; }
  bool last_layer() const { return phase().layer + 1 == model_->config().n_layers; }

  // The set of the phase's layer before the segment.
  ContextLayer<const float> SetBefore() const;
  void NextPhase();
  LayerSchedule ScheduleOf(const MemoryPhase& phase) const;
  LayerSchedule ScheduleOfCells(const MemoryPhase& phase) const;  // of the round

  void Project(RowRange rows, Scratch& scratch);
  void Attend(RowRange rows, Scratch& scratch);
  void Measure(RowRange rows, Scratch& scratch);
  // x = the tokens of rows of the table, as context rows with y or as query rows.
  enum class Role { kContextRow, kQueryRow };
  void Embed(absl::Span<const int32_t> rows, Role role, float* x, Scratch& scratch);

  EncodeSpec spec_;  // its features and y are emptied at the end
  const PackedModel* const model_;
  const ContextShape shape_;
  const ContextLayout layout_;
  float* const memory_;               // of the context
  const float* const prefix_memory_;  // null without a prefix
  const int threads_;
  const MemoryPlan plan_;

  std::unique_ptr<RowEncoderFit> fit_;  // until it is finished; null with a prefix
  std::shared_ptr<const RowEncoderState> encoder_state_;

  MemoryRows rows_;
  AlignedBuffer tokens_;                  // [rows of the segment, D]
  AlignedBuffer measuring_tokens_;        // [R, D]
  AlignedBuffer embedded_;                // [R, D], the measuring rows' tokens before layer 0
  bool measuring_rows_embedded_ = false;  // by the first segment that measures
  MemoryWorkspace workspace_;

  int64_t segment_;                  // the one before the first at the beginning
  std::vector<MemoryPhase> phases_;  // of the segment
  size_t phase_ = 0;
  CellTasks cell_tasks_;    // of kSpreadCells
  int64_t cell_round_ = 0;  // of cell_tasks_
  LayerSchedule schedule_;  // of the fit, if any, then of the phase, or of a round of cell_tasks_
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_MEMORY_ENCODE_H_
