// Opens the backend that the flags ask for.
#ifndef CHORALE_SERVER_OPEN_BACKEND_H_
#define CHORALE_SERVER_OPEN_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "server/server_options.h"

namespace chorale {

// BackendChoice::kAuto takes the CPU, and logs why, where there is no library of the GPU backend,
// no driver or no GPU that the kernels run on. What is there but cannot be opened, or has too
// little memory, is an error in either case: a server on the CPU would be many times slower than
// its operator expects. Logs which backend it is, and its memory.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const EngineSetup& setup);

}  // namespace chorale

#endif  // CHORALE_SERVER_OPEN_BACKEND_H_
