// Marginal predictions.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_PREDICT_WORK_H_
#define CHORALE_ENGINE_BACKEND_CUDA_PREDICT_WORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/launchable.h"
#include "engine/backend/cuda/mixtures.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/rows_workspace.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cuda {

// Thread contract: engine thread only.
class PredictWork : public chorale::PredictWork, public Launchable {
 public:
  PredictWork(PredictSpec spec, Device& device);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  int64_t steps_at_this_cost() const override { return schedule_.steps_at_this_cost(); }
  MixtureSpan mixture(int64_t row) const override;
  void Run(int64_t max_steps, const LaunchWorkspace& launch) override;
  void Collect() override;

 private:
  const PredictSpec spec_;
  const DeviceModel& model_;
  LayerSchedule schedule_;  // in tiles
  const RowsWorkspaceLayout layout_;
  char* const memory_;  // range of the buffer pool
  const TileSet set_;
  std::vector<float> raw_mixtures_;  // [rows, 3, M]; emptied by Collect
  Mixtures mixtures_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_PREDICT_WORK_H_
