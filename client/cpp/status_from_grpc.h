// Converts grpc::Status to absl::Status; nothing else in the client does.
#ifndef CHORALE_CLIENT_CPP_STATUS_FROM_GRPC_H_
#define CHORALE_CLIENT_CPP_STATUS_FROM_GRPC_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace grpc {
class Status;
}

namespace chorale::client {

// Keeps the code. Appends to the message what the google.rpc details add: the invalid fields with
// the reasons, and the retry delay ("try again in 2s").
absl::Status StatusFromGrpc(const grpc::Status& status);

// The server's retry delay; InfiniteDuration if it sent none.
absl::Duration RetryDelay(const absl::Status& status);

// The request fields that the server refused, e.g. "targets.columns[2].name"; may be empty.
std::vector<std::string> RefusedFields(const absl::Status& status);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_STATUS_FROM_GRPC_H_
