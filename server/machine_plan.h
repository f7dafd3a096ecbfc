// Sizes of pools and the number of threads, where no flag says them.
#ifndef CHORALE_SERVER_MACHINE_PLAN_H_
#define CHORALE_SERVER_MACHINE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/lifecycle/available_resources.h"
#include "server/server_options.h"
#include "server/telemetry/logging.h"

namespace chorale {

// What was chosen, and why.
struct MachinePlan {
  std::vector<LogField> fields;  // of a line in the log
  std::string warning;           // too little memory; empty: none
  std::string limit_warning;     // of --memory_limit_mib; empty: none
};

// Fits what no flag has set (ProgramOptions::given) to what the process may use:
//   - the pools in host memory, registrations and tables kept for their first request: as large as
//     their defaults, or else in the same proportions in what remains of kPlannedMemoryShare of the
//     memory after the program, `weight_bytes` of models, and what flags have set;
//   - the limit of memory: that of the cgroup, if it has one below the machine's memory; also where
//     a larger one was asked for. Where there is neither, or one was asked for that is above the
//     machine's memory, the process has its own (OwnMemoryLimit);
//   - the threads of the CPU backend.
// The memory is the least of what was found and of --memory_limit_mib.
//
// InvalidArgument, with what is needed, if a limit leaves no room for pools that serve, and no
// flag says that it should be tried. Unavailable if it would leave room once others give back what
// they have taken of it. Memory of the machine that others use at the moment is no limit.
absl::StatusOr<MachinePlan> FitToMachine(const AvailableResources& resources, int64_t weight_bytes,
                                         ProgramOptions* options);

// The same for a server that runs with the options `planned`, and whose cgroup now has the limit
// `cgroup` (unknown: it has none any more): its pools in the same proportions, also those that
// flags have set, and none larger than it was. `configured` are its options before FitToMachine.
MemoryShares DivideAnew(const MemoryBound& cgroup, int64_t weight_bytes, bool on_host,
                        const ProgramOptions& configured, const ProgramOptions& planned);

// Of the models' weights on disk; 0 where there are none.
int64_t WeightBytes(const std::vector<std::string>& models);

}  // namespace chorale

#endif  // CHORALE_SERVER_MACHINE_PLAN_H_
