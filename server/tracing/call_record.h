// The record of a call at its end, and its fields in the log.
#ifndef CHORALE_SERVER_TRACING_CALL_RECORD_H_
#define CHORALE_SERVER_TRACING_CALL_RECORD_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/api/call_report.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/method.h"
#include "server/tracing/trace_context.h"

namespace chorale {

// The identity of a call, from its arrival.
struct CallIdentity {
  std::string request_id;
  TraceContext trace;
};

struct CallRecord {
  Method method = Method::kSample;
  CallIdentity identity;
  std::string tenant;
  absl::StatusCode code = absl::StatusCode::kOk;
  // "context", "paths", "query_rows", ...: fields of the reactor
  std::vector<LogField> notes;
  std::optional<CallReport> report;  // nothing if the engine's scheduler did not see the call

  // Times are of the clock of the server.
  absl::Time arrival;
  absl::Time end;
  // The first message, or the status if there is none, was handed to gRPC.
  std::optional<absl::Time> write_began;
};

// The fields that every line about a call has.
std::vector<LogField> IdentityFields(const CallIdentity& identity);

// The fields of the line at the end of a call: outcome, identity, notes, model and times.
std::vector<LogField> LogFieldsOf(const CallRecord& record);

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_CALL_RECORD_H_
