// Work that is advanced by launches on the stream of the device.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_LAUNCHABLE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_LAUNCHABLE_H_

#include <cstdint>

#include "engine/backend/cuda/device/device.h"

namespace chorale::cuda {

// Thread contract: engine thread only.
class Launchable {
 public:
  virtual ~Launchable() = default;
  // Enqueues at least one and at most max_steps steps, and does not wait for them. REQUIRES: the
  // work is not done.
  virtual void Run(int64_t max_steps, const LaunchWorkspace& launch) = 0;
  // Takes the downloaded results. Called once the device has completed the launches of Run.
  virtual void Collect() {}
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_LAUNCHABLE_H_
