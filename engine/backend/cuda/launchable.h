// Work that advances by launches on the device's stream.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_LAUNCHABLE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_LAUNCHABLE_H_

#include <cstdint>

#include "engine/backend/cuda/device/device.h"

namespace chorale::cuda {

// Thread contract: engine thread only.
class Launchable {
 public:
  virtual ~Launchable() = default;
  // Enqueues up to max_steps steps, at least one, and does not wait for them.
  // REQUIRES: the work is not done.
  virtual void Run(int64_t max_steps, const LaunchWorkspace& launch) = 0;
  // Called once the device has finished what Run enqueued: the downloaded results are there.
  virtual void Collect() {}
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_LAUNCHABLE_H_
