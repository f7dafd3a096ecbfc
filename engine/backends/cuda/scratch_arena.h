// Device memory for what a piece of work keeps between launches: taken and given back in any order,
// without asking the device.
#ifndef CHORALE_ENGINE_BACKENDS_CUDA_SCRATCH_ARENA_H_
#define CHORALE_ENGINE_BACKENDS_CUDA_SCRATCH_ARENA_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/device_memory.h"

namespace chorale {

class ScratchArena;

// A part of the arena, or memory of its own when the arena had no room. Goes back when its owner
// goes; the arena must outlive it.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept { *this = std::move(other); }
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch();

  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* At(int64_t byte_offset = 0) const {
    return reinterpret_cast<T*>(data_ + byte_offset);
  }

 private:
  friend class ScratchArena;

  ScratchArena* arena_ = nullptr;  // null for memory of its own
  kernels::cuda::Memory own_;
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Thread contract: one thread.
class ScratchArena {
 public:
  static constexpr int64_t kAlignment = 256;

  explicit ScratchArena(kernels::cuda::Memory memory);

  // The lowest free place that is large enough. Where there is none, memory is allocated, which is
  // slow but no reason to fail; ResourceExhausted when the device has none either.
  absl::StatusOr<Scratch> Take(int64_t bytes);

  int64_t free_bytes() const;

 private:
  friend class Scratch;
  void GiveBack(char* data, int64_t bytes);

  kernels::cuda::Memory memory_;
  std::map<int64_t, int64_t> free_;  // offset to bytes; never two that touch
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKENDS_CUDA_SCRATCH_ARENA_H_
