// Autoregressive decode of one tile of paths.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DECODE_WORK_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DECODE_WORK_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/arena_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/mixtures.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/path_buffer.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

// The outputs of a batch of steps of one tile. They have the same layout in device memory and on
// the host.
struct StepOutputsLayout {
  // `components` is 0 if no mixtures are kept.
  StepOutputsLayout(int64_t steps, int64_t paths, int64_t components);

  ArenaArray<double> log_densities;  // [steps, paths]
  ArenaArray<float> values;          // [steps, paths]
  ArenaArray<float> mixtures;        // [steps, paths, 3, M]
  int64_t bytes = 0;
};

// A single tile, which DecodeRunner advances.
//
// Thread contract: engine thread only.
class DecodeWork : public chorale::DecodeWork {
 public:
  DecodeWork(DecodeSpec spec, Device& device);

  bool done() const override { return steps_done_ == positions_; }
  double next_step_flops() const override;
  double next_flops(int64_t steps) const override;
  // Outputs with mixtures are larger, so that fewer steps run together: no batch has both kinds.
  int64_t steps_at_this_cost() const override {
    return (KeepsNext() ? positions_ : std::min(positions_, spec_.tile.first_mixture)) -
           steps_done_;
  }
  int64_t steps_done() const override { return steps_done_; }
  absl::Span<const float> values() const override { return values_; }
  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t position) const override;

  const DeviceModel& model() const { return model_; }
  const ContextShape& context() const { return spec_.tile.context->shape; }
  int64_t paths() const { return spec_.tile.paths; }
  // Return the descriptors of the next `steps` steps. `outputs` is device memory for their outputs.
  kernels::cuda::Tile NextTile() const;
  kernels::cuda::PathTile NextPathTile(int64_t steps, char* outputs) const;

  // The outputs of the next `steps` steps, at most steps_at_this_cost().
  StepOutputsLayout OutputsLayout(int64_t steps) const;
  // Takes the outputs of the next `steps` steps from host memory, and returns their bytes.
  int64_t ConsumeOutputs(int64_t steps, const char* outputs);

 private:
  // Whether the mixtures of the next step are kept.
  bool KeepsNext() const { return steps_done_ >= spec_.tile.first_mixture; }

  const DecodeSpec spec_;
  const DeviceModel& model_;
  const int64_t positions_;  // P
  const PathBufferLayout layout_;
  char* const memory_;  // range of the buffer pool
  const ContextKeys context_;
  int64_t steps_done_ = 0;
  std::vector<float> values_;          // [P, paths]
  std::vector<double> log_densities_;  // [P, paths]
  Mixtures mixtures_;                  // [(P - first_mixture) * paths] if kept
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DECODE_WORK_H_
