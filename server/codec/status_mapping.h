// The only place that turns an absl::Status into a grpc::Status.
#ifndef CHORALE_SERVER_CODEC_STATUS_MAPPING_H_
#define CHORALE_SERVER_CODEC_STATUS_MAPPING_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace chorale {

// Keeps the code. The error details hold a google.rpc.Status with a BadRequest naming the field
// (ErrorField) and a RetryInfo (RetryDelay), where the status has them.
//
// Long messages are cut, since they travel in trailers of bounded size. Messages of codes that
// speak of the server's inside (INTERNAL, UNKNOWN, DATA_LOSS) may name files or addresses: they are
// logged, and the client gets a general sentence with a reference that finds the line in the log.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_STATUS_MAPPING_H_
