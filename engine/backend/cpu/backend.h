// The backend for a machine without a GPU: float32, on one pool of threads, with the widest vector
// instructions of the processor, which are selected at run time and listed in description().
#ifndef CHORALE_ENGINE_BACKEND_CPU_BACKEND_H_
#define CHORALE_ENGINE_BACKEND_CPU_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"

namespace chorale::cpu {

inline constexpr int kMaxThreads = 1'024;

struct BackendOptions {
  int threads = 0;                         // 0: one per processor
  int64_t context_pool_bytes = 4LL << 30;  // address space; memory is committed on first use
  int64_t buffer_pool_bytes = 1LL << 30;
};

// Returns InvalidArgument for pools that are not positive, and ResourceExhausted if the address
// space cannot be reserved.
absl::StatusOr<std::unique_ptr<chorale::Backend>> NewBackend(const BackendOptions& options);

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_BACKEND_H_
