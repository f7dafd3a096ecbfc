// How a server's errors reach users of the client: the only place that reads a grpc::Status.
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

// The same code; the message, completed by what google.rpc details add to it: the fields that
// were refused and why, and when to try again ("try again in 2s").
absl::Status StatusFromGrpc(const grpc::Status& status);

// What the server said about when to try again; InfiniteDuration when it said nothing.
absl::Duration RetryDelay(const absl::Status& status);

// The request's fields that the server refused, e.g. "targets.columns[2].name"; may be empty.
std::vector<std::string> RefusedFields(const absl::Status& status);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_STATUS_FROM_GRPC_H_
