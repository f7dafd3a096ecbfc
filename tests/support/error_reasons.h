// Checks the machine-readable reasons of the errors that calls of a test receive.
#ifndef CHORALE_TESTS_SUPPORT_ERROR_REASONS_H_
#define CHORALE_TESTS_SUPPORT_ERROR_REASONS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace chorale {

// The reasons in the header of chorale.proto, with the names of their status codes.
const std::map<std::string, std::string>& DocumentedReasons();

// The reason in the ErrorInfo of a status; empty if there is none.
std::string ReasonOf(const grpc::Status& status);

enum class UndocumentedReasons {
  kFail,
  kNamesOfCodes,  // valid if they are the name of the status code: errors of a fake engine
};

// The interceptors of a channel: the current test fails if an error of the server has no reason, a
// reason that is not documented, or a reason of another status code.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> CheckReasons(
    UndocumentedReasons undocumented);

}  // namespace chorale

#endif  // CHORALE_TESTS_SUPPORT_ERROR_REASONS_H_
