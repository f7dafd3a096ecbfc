// The spans of a call.
#ifndef CHORALE_SERVER_TRACING_CALL_SPANS_H_
#define CHORALE_SERVER_TRACING_CALL_SPANS_H_

#include <vector>

#include "absl/random/bit_gen_ref.h"
#include "absl/time/time.h"
#include "server/tracing/call_record.h"
#include "server/tracing/span.h"

namespace chorale {

// The call's own span is the first: "chorale.v1.Chorale/METHOD", from the arrival of the headers
// (of the whole request, in a method with a single request message) until gRPC reports the end of
// the call. Its attributes are those of OpenTelemetry's conventions for RPCs, and the fields of the
// log line as chorale.FIELD.
//
// Its children are the phases that the call has reached:
//
//   queue    the wait for admission: from arrival in the engine until there is memory for the
//            context, and again from when the context is resident until admission. A single span
//            if the context was already resident. Their sum is `queue_seconds`.
//   encode   from then until the context is resident: the dataset is read and encoded, in turn with
//            the work of other calls. Begins with this call, even if another call had the same
//            context encoded before.
//   restore  the same, if the context is restored by a copy instead.
//   steps    from admission until the engine has finished the call: query rows are encoded, values
//            are drawn, or densities or predictions computed, in turn with the work of other calls.
//            The event "first_step" marks the first values.
//   write    from when the first message is handed to gRPC until the end of the call: the client
//            reads the response. In Sample it overlaps `steps`, because values are streamed while
//            further values are drawn; a slow client prolongs both.
//
// The time between `steps` and `write` of a call with a single response is the encoding of the
// response.
//
// `wall_minus_clock` converts the times of the record to wall-clock times.
std::vector<Span> SpansOf(const CallRecord& record, absl::Duration wall_minus_clock,
                          absl::BitGenRef random);

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_CALL_SPANS_H_
