// Collects the weights of a model for a single upload to the GPU.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DEVICE_WEIGHT_BLOB_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DEVICE_WEIGHT_BLOB_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/arena_layout.h"
#include "base/status_macros.h"
#include "engine/backend/cuda/device/device.h"

namespace chorale::cuda {

// Arrays that are uploaded in one copy. MoveToDevice sets the pointers to the arrays, so the
// pointers must not move before the upload.
class WeightBlob {
 public:
  template <typename T>
  void Add(const std::vector<T>& values, const T** pointer) {
    const ArenaArray<T> array = layout_.Take<T>(static_cast<int64_t>(values.size()));
    bytes_.resize(layout_.bytes());
    std::copy(values.begin(), values.end(), array.At(bytes_.data()));
    pointers_.push_back([=](char* base) { *pointer = array.At(base); });
  }

  // Uploads the arrays. Returns their memory, for Device::ReturnWeights, or the error of
  // TakeWeights or of the device.
  absl::StatusOr<const char*> MoveToDevice(Device& device) const {
    const auto bytes = static_cast<int64_t>(bytes_.size());
    ASSIGN_OR_RETURN(char* const memory, device.TakeWeights(bytes));
    device.Upload(memory, bytes_.data(), bytes);
    device.Wait();
    for (const auto& set : pointers_) set(memory);
    if (!device.status().ok()) return device.status();
    return memory;
  }

 private:
  ArenaLayout layout_{kAlignment};
  std::vector<char> bytes_;
  std::vector<std::function<void(char*)>> pointers_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DEVICE_WEIGHT_BLOB_H_
