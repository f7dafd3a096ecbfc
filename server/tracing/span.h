// A span of a trace, as it is exported.
#ifndef CHORALE_SERVER_TRACING_SPAN_H_
#define CHORALE_SERVER_TRACING_SPAN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/telemetry/logging.h"
#include "server/tracing/trace_context.h"

namespace chorale {

struct Span {
  enum class Kind { kInternal, kServer };
  struct Event {
    std::string name;
    absl::Time time;
  };

  TraceId trace_id{};
  SpanId span_id{};
  SpanId parent_id{};  // none at the root of a trace
  bool parent_is_remote = false;
  Kind kind = Kind::kInternal;
  std::string name;
  absl::Time start;  // of the wall clock, like all times here
  absl::Time end;
  std::vector<LogField> attributes;
  std::vector<Event> events;
  bool failed = false;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_SPAN_H_
