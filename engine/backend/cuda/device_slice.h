// A slice (engine/backend/backend.h) whose work belongs to this backend.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DEVICE_SLICE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DEVICE_SLICE_H_

#include <cstdint>

namespace chorale::cuda {

template <typename Work>
struct DeviceSlice {
  Work* work = nullptr;  // not done
  int64_t steps = 0;     // at least 1
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DEVICE_SLICE_H_
