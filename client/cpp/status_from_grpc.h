// Converts grpc::Status to absl::Status. The client uses no other conversion.
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

// Keeps the status code. Appends the google.rpc details to the message: the invalid fields with the
// reasons, and the retry delay ("try again in 2s").
absl::Status StatusFromGrpc(const grpc::Status& status);

// Returns the server's retry delay; InfiniteDuration if the server sent none.
absl::Duration RetryDelay(const absl::Status& status);

// Returns the machine-readable reason of the error, such as "CONTEXT_NOT_FOUND"; the header of
// chorale.proto lists the reasons. Empty if the error is not from a Chorale server, or if the
// server is older than reasons.
std::string ErrorReason(const absl::Status& status);

// Returns whether the server may have carried out a call that failed. Only errors of
// Client::AppendRows are marked in this way, by WithUnknownOutcome.
bool OutcomeUnknown(const absl::Status& status);
absl::Status WithUnknownOutcome(absl::Status status);

// Returns whether the server may have carried out an attempt that ended with this error.
bool LeavesOutcomeOpen(const absl::Status& status);

// Returns the invalid fields of the request, such as "rows.columns[2].name"; may be empty.
std::vector<std::string> RefusedFields(const absl::Status& status);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_STATUS_FROM_GRPC_H_
