// Reserves memory for the tables of registrations and appends.
#ifndef CHORALE_SERVER_RPC_REGISTRATION_MEMORY_H_
#define CHORALE_SERVER_RPC_REGISTRATION_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/service_environment.h"

namespace chorale {

// Grows a reservation in ServiceEnvironment::registration_memory. `what`: the work that needs the
// memory, for the error. ResourceExhausted if other calls use the memory, or if `bytes` exceed the
// limit.
absl::Status ReserveRegistrationMemory(const ServiceEnvironment& environment,
                                       absl::string_view what, int64_t bytes,
                                       ByteReservation* reservation);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_REGISTRATION_MEMORY_H_
