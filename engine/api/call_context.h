// The part of a call that is not its request: the caller, and the terms of the call.
#ifndef CHORALE_ENGINE_API_CALL_CONTEXT_H_
#define CHORALE_ENGINE_API_CALL_CONTEXT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "engine/api/call_report.h"

namespace chorale {

// The client to whose share of the engine a call belongs: calls of a client compete with each
// other, and clients compete by their weights, regardless of their numbers of calls.
struct ClientShare {
  std::string client;  // compared for equality only
  double weight = 1;   // positive
};

struct CallContext {
  std::string tenant;  // owns the context that the request names
  ClientShare share = {};
  // The share of the context pool for all contexts of the tenant, in bytes: further contexts of the
  // tenant evict its own. A larger context is rejected. 0: no limit.
  int64_t max_resident_bytes = 0;
  absl::Time deadline = absl::InfiniteFuture();  // on the clock of the engine
  // Receives the report of the call, whatever its outcome; may be empty.
  CallReporter report = {};
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_CALL_CONTEXT_H_
