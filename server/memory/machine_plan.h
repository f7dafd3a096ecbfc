// Determines the sizes of pools and the number of threads that no flag sets.
#ifndef CHORALE_SERVER_MEMORY_MACHINE_PLAN_H_
#define CHORALE_SERVER_MEMORY_MACHINE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/memory/available_resources.h"
#include "server/options/server_options.h"
#include "server/telemetry/logging.h"

namespace chorale {

// The chosen values and their reasons.
struct MachinePlan {
  std::vector<LogField> fields;  // fields of a log event
  std::string warning;           // too little memory; empty: none
  std::string limit_warning;     // of --memory_limit_mib; empty: none
};

// Determines the options that no flag has set (ProgramOptions::given) from the resources of the
// process:
//   - the pools in host memory, registrations and tables kept for their first request: their
//     defaults, or smaller sizes in the same proportions that fit into kPlannedMemoryShare of the
//     memory, less the program, `weight_bytes` of models, and the pools that flags have set;
//   - the memory limit: the cgroup's limit, if it has one below the machine's memory, also if a
//     flag sets a larger limit. Without a cgroup's limit, if no flag sets a limit or the flag
//     exceeds the machine's memory, the process has its own limit (OwnMemoryLimit);
//   - the threads of the CPU backend.
// The memory is the minimum of the resources and --memory_limit_mib.
//
// InvalidArgument, with the required memory, if a limit is too low for working pools and no flag
// sets a pool. Unavailable if the limit would suffice without the memory in use by others. Memory
// of the machine that others use at the moment is not a limit.
absl::StatusOr<MachinePlan> FitToMachine(const AvailableResources& resources, int64_t weight_bytes,
                                         ProgramOptions* options);

// The same for a running server with the options `planned`, whose cgroup now has the limit `cgroup`
// (unknown: no limit): its pools in the same proportions, including pools that flags have set, and
// none larger than before. `configured` contains its options before FitToMachine.
MemoryShares DivideAnew(const MemoryBound& cgroup, int64_t weight_bytes, bool on_host,
                        const ProgramOptions& configured, const ProgramOptions& planned);

// The size of the models' weights on disk; 0 if there are none.
int64_t WeightBytes(const std::vector<std::string>& models);

}  // namespace chorale

#endif  // CHORALE_SERVER_MEMORY_MACHINE_PLAN_H_
