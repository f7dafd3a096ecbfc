// Converts absl::Status to grpc::Status; nothing else in the server does.
#ifndef CHORALE_SERVER_CODEC_STATUS_MAPPING_H_
#define CHORALE_SERVER_CODEC_STATUS_MAPPING_H_

#include <grpcpp/support/status.h>

#include <vector>

#include "absl/status/status.h"
#include "server/telemetry/logging.h"

namespace chorale {

// Keeps the code. The error details are a google.rpc.Status with an ErrorInfo (ErrorReasonOf; its
// domain is "chorale") and, if the status has them, a BadRequest for the field (ErrorField) and a
// RetryInfo (RetryDelay).
//
// Long messages are truncated, because trailers have a limited size. Messages of internal errors
// (INTERNAL, UNKNOWN, DATA_LOSS) may contain file names or addresses: the server logs them, and the
// client receives a general message with a reference to the log line, which also contains
// `about_call`.
grpc::Status ToGrpcStatus(const absl::Status& status, std::vector<LogField> about_call = {});

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_STATUS_MAPPING_H_
