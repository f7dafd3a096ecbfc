// Errors as a server sends them.
#ifndef CHORALE_TESTS_CLIENT_CPP_SERVER_ERRORS_H_
#define CHORALE_TESTS_CLIENT_CPP_SERVER_ERRORS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/time/time.h"

namespace chorale::client {

// A status with google.rpc details, as the server sends them.
grpc::Status WithRetryInfo(grpc::StatusCode code, const std::string& message, absl::Duration delay);
grpc::Status WithReason(grpc::StatusCode code, const std::string& message,
                        const std::string& reason, const std::string& domain);
grpc::Status WithBadField(const std::string& message, const std::string& field,
                          const std::string& description);

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CPP_SERVER_ERRORS_H_
