// Checks whether the planned memory fits below the limit.
#ifndef CHORALE_SERVER_MEMORY_MEMORY_PLAN_H_
#define CHORALE_SERVER_MEMORY_MEMORY_PLAN_H_

#include "absl/status/status.h"
#include "engine/api/stats.h"
#include "engine/backend/backend.h"
#include "server/options/server_options.h"

namespace chorale {

// InvalidArgument if the pools in host memory and --registration_memory_mib together exceed
// kPlannedMemoryShare of --memory_limit_mib; the message lists the parts by flag name.
absl::Status CheckMemoryPlan(const ServerOptions& options, const PoolSizes& pools,
                             const BackendInfo& backend);

}  // namespace chorale

#endif  // CHORALE_SERVER_MEMORY_MEMORY_PLAN_H_
