// The client's channels to one server, and unary calls over them.
#ifndef CHORALE_CLIENT_CPP_CONNECTION_H_
#define CHORALE_CLIENT_CPP_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "chorale/v1/chorale.grpc.pb.h"
#include "client/cpp/call.h"
#include "client/cpp/client.h"

namespace chorale::client {

// The API's limit for one message.
inline constexpr int64_t kMaxMessageBytes = 4 << 20;

// Immutable after construction; channels and stubs are thread-safe.
class Client::Connection {
 public:
  Connection(const std::string& address, const ClientOptions& options);

  // Waits until the server answers. Cancelled, or ConnectionFailure's error after `deadline`, a
  // time of Clock::Real().
  absl::Status WaitUntilReady(absl::Time deadline, const Cancellation* cancellation);

  v1::Chorale::Stub* calls() { return calls_.get(); }
  // For streams from the server. HTTP/2 flow control also applies to connections: on a shared
  // connection, a slow reader of a stream would block the other calls.
  v1::Chorale::Stub* streams() { return streams_.get(); }

  const std::string& address() const { return address_; }

 private:
  const std::string address_;
  const ClientOptions options_;
  std::shared_ptr<grpc::Channel> call_channel_;
  std::unique_ptr<v1::Chorale::Stub> calls_;
  std::unique_ptr<v1::Chorale::Stub> streams_;
};

// InvalidArgument if the token cannot be sent as metadata, or must not be sent without encryption.
absl::Status CheckToken(const std::string& address, const ClientOptions& options);

// InvalidArgument if the request exceeds kMaxMessageBytes.
absl::Status CheckMessageSize(const google::protobuf::Message& request);

// Makes a unary call. `prepare` is the stub's PrepareAsync method; `context_id` as in Call.
template <class Request, class Response>
absl::Status UnaryCall(v1::Chorale::Stub* stub,
                       std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (
                           v1::Chorale::Stub::*prepare)(grpc::ClientContext*, const Request&,
                                                        grpc::CompletionQueue*),
                       const Request& request, absl::string_view context_id,
                       const Deadline& deadline, const Cancellation* cancellation,
                       Response* response) {
  RETURN_IF_ERROR(CheckMessageSize(request));
  Call call(context_id, deadline, cancellation);
  auto reader = (stub->*prepare)(call.context(), request, call.queue());
  reader->StartCall();
  grpc::Status status;
  reader->Finish(response, &status, Call::tag());
  call.Wait();
  return call.Result(status);
}

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CONNECTION_H_
