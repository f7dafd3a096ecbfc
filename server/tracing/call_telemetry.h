// The telemetry of every call: a log line and, if the call is sampled, a trace.
#ifndef CHORALE_SERVER_TRACING_CALL_TELEMETRY_H_
#define CHORALE_SERVER_TRACING_CALL_TELEMETRY_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/tracing/call_record.h"
#include "server/tracing/span_exporter.h"

namespace chorale {

// Every call gets a request id and a trace id for its log lines. Without an exporter, no spans are
// made, and a caller's request to be sampled is ignored.
//
// Thread-safe.
class CallTelemetry {
 public:
  // `exporter` may be null, and outlives this.
  CallTelemetry(SpanExporter* exporter, double root_sample_rate, absl::Duration slow_call)
      : exporter_(exporter), root_sample_rate_(root_sample_rate) {
    SetSlowCall(slow_call);
  }

  // From the headers of the request; nothing for a header that is absent or occurs more than once.
  CallIdentity Begin(const std::optional<absl::string_view>& request_id,
                     const std::optional<absl::string_view>& traceparent) const;

  // Logs the event "request": information, or a warning with slow=true if the call took longer than
  // the limit; no event unless `has_line`. Exports the spans of a sampled call.
  void End(const CallRecord& record, bool has_line) const;

  // The limit of slow calls; zero: no call is slow. Applies to calls that end from now on.
  void SetSlowCall(absl::Duration limit) { slow_call_ns_ = absl::ToInt64Nanoseconds(limit); }

 private:
  SpanExporter* const exporter_;
  const double root_sample_rate_;
  std::atomic<int64_t> slow_call_ns_{0};
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_CALL_TELEMETRY_H_
