// Encodes a reduced context.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_MEMORY_ENCODE_WORK_H_
#define CHORALE_ENGINE_BACKEND_CUDA_MEMORY_ENCODE_WORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/encoder_fit.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/launchable.h"
#include "engine/backend/cuda/memory_choice.h"
#include "engine/backend/cuda/memory_workspace.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/layer_schedule.h"
#include "engine/backend/memory_plan.h"

namespace chorale::cuda {

// First fits the row encoder to the rows before the first append, then runs the phases of the plan
// (engine/backend/memory_plan.h), segment by segment and layer by layer. The set of each layer is
// in the context pool between its segments; everything else is in the range of the encode pool. A
// prefix has fitted the row encoder, and its set is the one before the first segment.
// Keys are chosen on the device with MERGE. With HEAVY and SAMPLE the host chooses: it waits for
// the importance of the keys, so a call of Run ends with the phase that computes it.
//
// Thread contract: engine thread only.
class MemoryEncodeWork : public chorale::EncodeWork, public Launchable {
 public:
  // REQUIRES: spec.shape().reduced().
  MemoryEncodeWork(EncodeSpec spec, Device& device);

  bool done() const override { return segment_ == plan_.segments(); }
  double next_step_flops() const override { return current_schedule().next_step_flops(); }
  double next_flops(int64_t steps) const override { return current_schedule().next_flops(steps); }
  int64_t steps_at_this_cost() const override { return current_schedule().steps_at_this_cost(); }
  ResidentContext TakeContext() override;
  void Run(int64_t max_steps, const LaunchWorkspace& launch) override;

 private:
  bool fitted() const { return fit_ == nullptr; }
  bool measures() const { return plan_.measuring_rows() > 0; }
  // Whether fewer keys than there are will be kept of this segment.
  bool reduces() const { return workspace_.keys().keys() > shape_.memory.rows; }
  const MemoryPhase& phase() const { return phases_[phase_]; }
  const LayerSchedule& current_schedule() const { return fitted() ? schedule_ : fit_->schedule(); }

  void RunFit(int64_t* max_steps, const Device& device);
  void NextPhase();
  LayerSchedule ScheduleOf(const MemoryPhase& phase) const;
  // Runs units of the phase, as its schedule counts them.
  void RunUnits(RowRange units, const LaunchWorkspace& launch);
  void Project(RowRange tiles, const LaunchWorkspace& launch);
  void Measure(const LaunchWorkspace& launch);
  void Choose();
  // Of the choice of the phase's layer, in head 0.
  uint32_t FirstStream() const {
    return MemoryStream(model_.config(), segment_, phase().layer, /*kv_head=*/0);
  }
  // The set of the phase's layer before and after the segment.
  LayerKeys SetBefore() const {
    const bool of_prefix = prefix_memory_ != nullptr && segment_ == plan_.first_segment();
    return layout_.Layer(of_prefix ? prefix_memory_ : memory_, phase().layer);
  }
  LayerKeys SetAfter() const { return layout_.Layer(memory_, phase().layer); }

  EncodeSpec spec_;  // its features and y are emptied at the end
  const DeviceModel& model_;
  const ContextShape shape_;
  const ContextLayout layout_;
  char* const memory_;         // of the context
  char* const prefix_memory_;  // null without a prefix
  const MemoryPlan plan_;
  const int64_t chunk_tiles_;        // of a step
  std::unique_ptr<EncoderFit> fit_;  // until it is finished; null with a prefix
  std::shared_ptr<const RowEncoderState> encoder_state_;
  MemoryWorkspace workspace_;
  std::unique_ptr<MemoryChoice> choice_;  // with measuring rows

  MemoryRows rows_;
  bool measuring_rows_encoded_ = false;  // by the first segment that measures
  std::vector<double> importance_;       // [Hkv, places], downloaded
  bool waits_ = false;                   // for the download

  int64_t segment_;                  // the one before the first at the beginning
  std::vector<MemoryPhase> phases_;  // of the segment
  size_t phase_ = 0;
  LayerSchedule schedule_;  // of the phase
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_MEMORY_ENCODE_WORK_H_
