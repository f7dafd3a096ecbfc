// Encodes a context.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ENCODE_WORK_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ENCODE_WORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/encoder_fit.h"
#include "engine/backend/cuda/launchable.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/rows_workspace.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cuda {

// The last phase is PreAttention of layer L - 1, because nothing reads the output of a context row.
//
// Thread contract: engine thread only.
class EncodeWork : public chorale::EncodeWork, public Launchable {
 public:
  // REQUIRES: the shape of the context is not reduced.
  EncodeWork(EncodeSpec spec, Device& device);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override { return current_schedule().next_step_flops(); }
  int64_t steps_at_this_cost() const override { return current_schedule().steps_at_this_cost(); }
  ResidentContext TakeContext() override;
  void Run(int64_t max_steps, const LaunchWorkspace& launch) override;

 private:
  const LayerSchedule& current_schedule() const {
    return fit_.done() ? schedule_ : fit_.schedule();
  }
  void Embed(const TileSet& set, RowRange tiles, const LaunchWorkspace& launch);

  const std::shared_ptr<const BackendModel> owner_;
  const DeviceModel& model_;
  const PoolRange range_;
  const ContextShape context_shape_;
  const int64_t rows_;

  FeatureMatrix features_;  // emptied after phase 0
  std::vector<float> y_;    // emptied after phase 0
  EncoderFit fit_;
  LayerSchedule schedule_;  // of the layers, in tiles
  const RowsWorkspaceLayout layout_;
  const TileSet set_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ENCODE_WORK_H_
