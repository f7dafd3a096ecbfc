// An owned block of device or pinned host memory.
#ifndef CHORALE_KERNELS_CUDA_RUNTIME_DEVICE_MEMORY_H_
#define CHORALE_KERNELS_CUDA_RUNTIME_DEVICE_MEMORY_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/runtime/runtime.h"

namespace chorale::kernels::cuda {

enum class MemoryKind { kDevice, kPinned };

// Thread-compatible.
class Memory {
 public:
  // ResourceExhausted naming `what` and the bytes. Contents are undefined.
  static absl::StatusOr<Memory> Allocate(MemoryKind kind, int64_t bytes, absl::string_view what);

  Memory() = default;
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* At(int64_t byte_offset = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + byte_offset);
  }

 private:
  Memory(MemoryKind kind, void* data, int64_t bytes) : kind_(kind), data_(data), bytes_(bytes) {}

  MemoryKind kind_ = MemoryKind::kDevice;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_DEVICE_MEMORY_H_
