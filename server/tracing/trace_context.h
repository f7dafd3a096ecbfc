// The position of a call in a distributed trace, by the W3C recommendation "Trace Context".
#ifndef CHORALE_SERVER_TRACING_TRACE_CONTEXT_H_
#define CHORALE_SERVER_TRACING_TRACE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/random/bit_gen_ref.h"
#include "absl/strings/string_view.h"

namespace chorale {

using TraceId = std::array<uint8_t, 16>;  // all zero: none
using SpanId = std::array<uint8_t, 8>;    // all zero: none

// The content of the header `traceparent`.
struct TraceParent {
  TraceId trace_id{};
  SpanId span_id{};
  bool sampled = false;
};

struct TraceContext {
  TraceId trace_id{};
  SpanId span_id{};    // of the call's own span
  SpanId parent_id{};  // of the caller's span; none if the trace begins here
  bool sampled = false;
};

// Nothing if the header is malformed: the caller is then treated as if it had sent none. Of
// versions later than 00 the known fields are used, as the recommendation requires.
std::optional<TraceParent> ParseTraceparent(absl::string_view header);

// Whether a trace that begins here is sampled, for a `rate` of 0 to 1. A function of the id's
// last seven bytes, which are random, so that services of the same rate agree about a trace.
bool SampleRoot(const TraceId& trace_id, double rate);

// Continues the parent's trace, with the parent's decision on sampling, or begins one.
TraceContext MakeTraceContext(const std::optional<TraceParent>& parent, double root_sample_rate,
                              absl::BitGenRef random);

SpanId MakeSpanId(absl::BitGenRef random);

// Lower-case hexadecimal.
std::string ToHex(const TraceId& id);
std::string ToHex(const SpanId& id);

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_TRACE_CONTEXT_H_
