// The spans of a call.
#ifndef CHORALE_SERVER_TRACING_CALL_SPANS_H_
#define CHORALE_SERVER_TRACING_CALL_SPANS_H_

#include <vector>

#include "absl/random/bit_gen_ref.h"
#include "absl/time/time.h"
#include "server/tracing/call_record.h"
#include "server/tracing/span.h"

namespace chorale {

// The call's own span comes first: "chorale.v1.Chorale/METHOD", from the arrival of the headers (of
// the whole request, in a method that is sent one message) until gRPC says that the call is over.
// Its attributes are those of OpenTelemetry's conventions for RPCs, and the fields of the log line
// as chorale.FIELD.
//
// Its children are what the call's time went to, as far as the call came:
//
//   queue    waiting for its turn and for memory: from arrival in the engine until there is room
//            for the context, and again from when the context is resident until admission. One
//            span if the context was resident already. Together they take `queue_seconds`.
//   encode   from then until the context is resident: the dataset is read and encoded, in turn with
//            the work of other calls. Begins with this call, also where another one had the same
//            context encoded before.
//   restore  the same, where the context is copied back instead.
//   steps    from admission until the engine has finished the call: target rows are encoded, values
//            are drawn, or densities or predictions computed, in turn with the work of other calls.
//            The event "first_step" says when the first values were there.
//   write    from when the first message is handed to gRPC until the call is over: the client
//            takes in what is sent. Of a Sample it overlaps `steps`, because values are streamed
//            while further ones are drawn; a slow client stretches both.
//
// What lies between `steps` and `write` of a call with one response is the encoding of it.
//
// `wall_minus_monotonic` turns the record's times into the wall clock's.
std::vector<Span> SpansOf(const CallRecord& record, absl::Duration wall_minus_monotonic,
                          absl::BitGenRef random);

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_CALL_SPANS_H_
