// A contiguous range of memory, of which the engine assigns parts.
#ifndef CHORALE_ENGINE_BACKEND_CPU_MEMORY_POOL_H_
#define CHORALE_ENGINE_BACKEND_CPU_MEMORY_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/backend/backend.h"

namespace chorale::cpu {

// Reserves address space; the operating system commits zeroed memory on first write.
// Thread-safe, but no other thread may use a range during its Clear.
class MemoryPool {
 public:
  static constexpr int64_t kAlignment = 64;  // a cache line, and the widest vector

  // Returns InvalidArgument with `name` for a size that is not positive, and ResourceExhausted if
  // the address space cannot be reserved.
  static absl::StatusOr<std::unique_ptr<MemoryPool>> Create(absl::string_view name, int64_t bytes);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  int64_t bytes() const { return bytes_; }

  // REQUIRES: the range lies in the pool and is aligned.
  float* At(const PoolRange& range) const;

  // Makes the range read as zero, and returns full pages to the operating system.
  void Clear(const PoolRange& range);

 private:
  MemoryPool(char* base, int64_t bytes) : base_(base), bytes_(bytes) {}

  char* const base_;
  const int64_t bytes_;
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_MEMORY_POOL_H_
