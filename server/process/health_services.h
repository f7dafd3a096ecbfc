// The names of the services of gRPC's health service.
#ifndef CHORALE_SERVER_PROCESS_HEALTH_SERVICES_H_
#define CHORALE_SERVER_PROCESS_HEALTH_SERVICES_H_

namespace chorale {

// SERVING while the server admits calls, the store is intact, and no shutdown was requested. The
// server as a whole ("") and the service of the API have the same status.
inline constexpr char kReadinessService[] = "readiness";
inline constexpr char kApiService[] = "chorale.v1.Chorale";

// SERVING while the process should live: while it starts, serves and drains. NOT_SERVING when only
// a restart helps.
inline constexpr char kLivenessService[] = "liveness";

}  // namespace chorale

#endif  // CHORALE_SERVER_PROCESS_HEALTH_SERVICES_H_
