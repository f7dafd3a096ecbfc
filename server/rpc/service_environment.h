// The dependencies of the service and its reactors.
#ifndef CHORALE_SERVER_RPC_SERVICE_ENVIRONMENT_H_
#define CHORALE_SERVER_RPC_SERVICE_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/api/engine.h"
#include "engine/data/live_limits.h"
#include "server/process/executor.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/reactor_registry.h"
#include "server/rpc/reply_memory.h"
#include "server/security/access_control.h"
#include "server/telemetry/prometheus_metrics.h"
#include "server/tracing/call_telemetry.h"

namespace chorale {

// Nothing is owned; everything outlives every reactor. Constant once the registry is open; the
// objects pointed to are thread-safe.
struct ServiceEnvironment {
  Engine* engine = nullptr;  // set before the registry opens; only admitted calls read it
  const Clock* clock = Clock::Real();
  ReactorRegistry* registry = nullptr;
  AccessControl* access = nullptr;
  PrometheusMetrics* metrics = nullptr;
  CallTelemetry* telemetry = nullptr;
  Executor* blocking = nullptr;        // for calls that block on the disk
  Executor* lists = nullptr;           // for lists of contexts, one at a time
  Executor* large_requests = nullptr;  // decodes them; unbounded
  Executor* replies = nullptr;         // encodes and sends; unbounded
  ByteBudget* registration_memory = nullptr;
  ReplyMemory* reply_memory = nullptr;
  const LiveLimits* limits = nullptr;
  std::function<void(const std::string& endpoint)> allow_message =  // Listener::AllowMessage
      [](const std::string&) {};
  int64_t max_message_bytes = 4 << 20;            // requests and responses
  int64_t max_concurrent_calls = 100;             // of a connection
  std::vector<v1::ServerInfo::Feature> features;  // those of the server, not of its engine
  absl::Duration retry_delay = absl::Seconds(1);  // suggested with RESOURCE_EXHAUSTED
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_SERVICE_ENVIRONMENT_H_
