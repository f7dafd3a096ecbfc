#include "kernels/cuda/runtime/device_memory.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/status.h"

namespace chorale::kernels::cuda {

absl::StatusOr<Memory> Memory::Allocate(MemoryKind kind, int64_t bytes, absl::string_view what) {
  void* data = nullptr;
  const ErrorCode error =
      kind == MemoryKind::kDevice ? AllocateDevice(&data, bytes) : AllocatePinned(&data, bytes);
  if (error != 0) {
    return ToStatus(error, absl::StrCat("allocating ", bytes, " bytes for ", what));
  }
  return Memory(kind, data, bytes);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(kind_, other.kind_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

// Errors are ignored: they repeat an earlier call's error or mean that the device is lost.
Memory::~Memory() {
  if (data_ == nullptr) return;
  kind_ == MemoryKind::kDevice ? FreeDevice(data_) : FreePinned(data_);
}

}  // namespace chorale::kernels::cuda
