// The fit of a row encoder to a context, as steps of work.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ENCODER_FIT_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ENCODER_FIT_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/row_encoder/row_encoder.h"
#include "engine/backend/layer_schedule.h"
#include "engine/data/feature_transform.h"

namespace chorale::cuda {

// Thread contract: engine thread only.
class EncoderFit {
 public:
  // `features` and `y` must outlive the fit until it is done.
  EncoderFit(const DeviceModel& model, const FeatureMatrix& features, absl::Span<const float> y,
             Device& device)
      : fit_(model.row_encoder().NewFit(features, y, device.launch_workspace())),
        schedule_({fit_->task_flops()}, fit_->tasks(), 1) {}

  bool done() const { return schedule_.done(); }
  const LayerSchedule& schedule() const { return schedule_; }
  // REQUIRES: done().
  const std::shared_ptr<const RowEncoderState>& state() const { return state_; }

  // Runs at most max_steps steps, and returns their number. REQUIRES: not done.
  int64_t Run(int64_t max_steps, const Device& device) {
    const int64_t tasks = schedule_.BeginBatch(max_steps);
    for (int64_t task = 0; task < tasks; ++task) fit_->RunTask(schedule_.RowsOf(task).first);
    const int64_t steps = schedule_.EndBatch();
    if (done() && device.status().ok()) {
      state_ = fit_->Finish();
      fit_.reset();
    }
    return steps;
  }

 private:
  std::unique_ptr<RowEncoderFit> fit_;  // until it is finished
  LayerSchedule schedule_;
  std::shared_ptr<const RowEncoderState> state_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ENCODER_FIT_H_
