// Opens the CPU or the GPU backend.
#ifndef CHORALE_SERVER_APP_OPEN_BACKEND_H_
#define CHORALE_SERVER_APP_OPEN_BACKEND_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/backend.h"
#include "server/options/server_options.h"

namespace chorale {

// The options of the CPU backend.
cpu::BackendOptions CpuOptions(const EngineSetup& setup);

// The errors of OpenBackend that can be found without opening anything.
absl::Status CheckBackendIsThere(const EngineSetup& setup);

// BackendChoice::kAuto opens the CPU backend, and logs the reason, if there is no GPU backend
// library, no driver or no supported GPU. If there is a GPU but it cannot be opened, or has too
// little memory, that is an error also for kAuto: the CPU would be many times slower than the
// operator expects. Logs the backend and the sizes of its pools.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const EngineSetup& setup);

}  // namespace chorale

#endif  // CHORALE_SERVER_APP_OPEN_BACKEND_H_
