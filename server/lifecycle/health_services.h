// Names that gRPC's health service knows.
#ifndef CHORALE_SERVER_LIFECYCLE_HEALTH_SERVICES_H_
#define CHORALE_SERVER_LIFECYCLE_HEALTH_SERVICES_H_

namespace chorale {

// SERVING while calls are admitted, the store is where it was, and no shutdown was asked for. The
// server as a whole ("") and the service of the API say the same.
inline constexpr char kReadinessService[] = "readiness";
inline constexpr char kApiService[] = "chorale.v1.Chorale";

// SERVING while the process should live: while it starts, serves and drains. NOT_SERVING when only
// a new process helps.
inline constexpr char kLivenessService[] = "liveness";

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_HEALTH_SERVICES_H_
