// Autoregressive decode of one tile of paths.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DECODE_WORK_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DECODE_WORK_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/mixtures.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/path_buffer.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

// One tile. It is advanced by a DecodeGraphs.
// Thread contract: the engine thread's.
class DecodeWork : public chorale::DecodeWork {
 public:
  DecodeWork(DecodeSpec spec, Device& device);

  bool done() const override { return steps_done_ == targets_; }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override { return targets_ - steps_done_; }
  int64_t steps_done() const override { return steps_done_; }
  absl::Span<const float> values() const override { return values_; }
  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t step) const override;

  const DeviceModel& model() const { return model_; }
  int64_t context_rows() const { return spec_.tile.context->rows; }
  int64_t paths() const { return spec_.tile.paths; }
  int64_t steps_left() const { return targets_ - steps_done_; }

  // What the kernels are told for the next `steps` steps, but for the outbox.
  kernels::cuda::Tile NextTile() const;
  kernels::cuda::PathTile NextPathTile(int64_t steps) const;

  static constexpr int64_t kValueBytes = sizeof(double) + sizeof(float);  // log-density and value
  static constexpr int64_t kOutboxAlignment = 16;

  // What a round of steps leaves for the host, one array behind the other.
  struct Outbox {
    double* log_densities = nullptr;  // [steps, paths]
    float* values = nullptr;          // [steps, paths]
    float* mixtures = nullptr;        // [steps, paths, 3, M] when kept
  };
  int64_t outbox_bytes(int64_t steps) const;
  Outbox OutboxAt(char* memory, int64_t steps) const;

  // The next `steps` steps are done, and this is what they left.
  void Take(int64_t steps, const Outbox& outbox);

 private:
  const DecodeSpec spec_;
  const DeviceModel& model_;
  const int64_t targets_;  // T
  const TileMemory layout_;
  char* const memory_;       // the range of the buffer pool
  uint16_t* const context_;  // K and V
  int64_t steps_done_ = 0;
  std::vector<float> values_;          // [T, paths]
  std::vector<double> log_densities_;  // [T, paths]
  Mixtures mixtures_;                  // [T * paths] when kept
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DECODE_WORK_H_
