// Log-densities of forced values, computed in one pass over the layers.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DENSITY_WORK_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DENSITY_WORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/launchable.h"
#include "engine/backend/cuda/mixtures.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/path_buffer.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cuda {

// Processes all positions of a path together; a decode processes them one after the other. Row
// tiles of whole paths go through all layers, one batch after the other. Otherwise there is a row
// tile for each position of each tile of paths, and all complete a layer before the first one
// enters the next. Which of the two depends on the model, the device and P alone.
class DensityWork : public chorale::DensityWork, public Launchable {
 public:
  DensityWork(DensitySpec spec, Device& device);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  int64_t steps_at_this_cost() const override { return schedule_.steps_at_this_cost(); }
  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t position) const override;
  void Run(int64_t max_steps, const LaunchWorkspace& launch) override;
  void Collect() override;

 private:
  void UploadRowTiles(Device& device);
  void Download(Device& device);

  const DensitySpec spec_;
  const DeviceModel& model_;
  const int64_t positions_;  // P
  const PathBufferLayout layout_;
  char* const memory_;      // range of the buffer pool
  LayerSchedule schedule_;  // in row tiles
  TileSet set_;
  std::vector<double> log_densities_;  // [P, paths]
  std::vector<float> raw_mixtures_;    // [P, paths, 3, M] if kept; emptied by Collect
  Mixtures mixtures_;                  // [P * paths] if kept
};

// Returns the maximum number of paths of a density with `positions` positions, a multiple of 32. Of
// whole paths, there should be about four row tiles per multiprocessor. Otherwise a tile of paths
// has a row tile for each position, and there should be two row tiles per multiprocessor, in at
// most 16 tiles of paths.
int64_t DensityPaths(const KernelShape& shape, int64_t positions, int multiprocessors);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DENSITY_WORK_H_
