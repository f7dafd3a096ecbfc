// A model's weights on their way to the GPU.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DEVICE_WEIGHT_BLOB_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DEVICE_WEIGHT_BLOB_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/integer_math.h"
#include "base/status_macros.h"
#include "engine/backend/cuda/device/device.h"

namespace chorale::cuda {

// Arrays that go to the device in one piece. Pointers to them are set when it is there, and must
// stay where they are until then.
class WeightBlob {
 public:
  template <typename T>
  void Add(const std::vector<T>& values, const T** pointer) {
    const size_t offset = RoundUp(bytes_.size(), static_cast<size_t>(kAlignment));
    bytes_.resize(offset + values.size() * sizeof(T));
    std::memcpy(bytes_.data() + offset, values.data(), values.size() * sizeof(T));
    pointers_.push_back([=](char* base) { *pointer = reinterpret_cast<const T*>(base + offset); });
  }

  absl::Status MoveToDevice(Device& device) const {
    const auto bytes = static_cast<int64_t>(bytes_.size());
    const absl::StatusOr<char*> memory = device.TakeWeights(bytes);
    RETURN_IF_ERROR(memory.status());
    device.Upload(*memory, bytes_.data(), bytes);
    device.Wait();
    for (const auto& set : pointers_) set(*memory);
    return device.status();
  }

 private:
  std::vector<char> bytes_;
  std::vector<std::function<void(char*)>> pointers_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DEVICE_WEIGHT_BLOB_H_
