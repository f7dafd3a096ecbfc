#include "client/cpp/connection.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/loopback.h"
#include "client/cpp/connection_failure.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/client_interceptor.h"

namespace chorale::client {
namespace {

// Timeout for a call that fails within this process.
constexpr absl::Duration kFailureWait = absl::Seconds(1);
// Detects a dead connection within 80 s at a ping rate that servers and proxies tolerate.
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// By default gRPC waits up to two minutes between attempts; these find a restarted server sooner.
constexpr int kFirstReconnectMs = 100;
constexpr int kMaxReconnectMs = 5'000;
// Responses may be larger than requests: log-densities with terms.
constexpr int kMaxResponseBytes = 64 << 20;

std::shared_ptr<grpc::ChannelCredentials> Credentials(const ClientOptions& options) {
  if (!options.tls.has_value()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials(grpc::SslCredentialsOptions{
      .pem_root_certs = options.tls->root_certificates,
      .pem_private_key = options.tls->client_key,
      .pem_cert_chain = options.tls->client_certificate,
  });
}

// Adds the token to the metadata of each call. gRPC's credentials of calls do so only over TLS,
// and a server on this machine may not use TLS.
class AddToken final : public grpc::experimental::Interceptor {
 public:
  explicit AddToken(std::string authorization) : authorization_(std::move(authorization)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", authorization_);
    }
    methods->Proceed();
  }

 private:
  const std::string authorization_;
};

class AddTokenFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit AddTokenFactory(absl::string_view token)
      : authorization_(absl::StrCat("Bearer ", token)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*info*/) override {
    return new AddToken(authorization_);
  }

 private:
  const std::string authorization_;
};

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address,
                                           const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  // Channels with the same arguments would share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  // WithRetry retries; gRPC's own retries would multiply the attempts.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(kMaxResponseBytes);
  // gRPC would use http_proxy for loopback addresses as well. The proxy would receive the token,
  // which is not encrypted there, and would connect to its own machine instead of this machine.
  if (IsLoopbackAddress(address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.token.empty()) {
    return grpc::CreateCustomChannel(address, Credentials(options), arguments);
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<AddTokenFactory>(options.token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, Credentials(options), arguments, std::move(interceptors));
}

// The error of a channel in TRANSIENT_FAILURE. gRPC reports it only through a call, which fails at
// once. If the channel has become ready in the meantime, the call is a harmless health check.
std::string FailureOf(const std::shared_ptr<grpc::Channel>& channel) {
  Call call(/*context_id=*/"", Deadline::After(kFailureWait), /*cancellation=*/nullptr);
  grpc::GenericStub stub(channel);
  const grpc::Slice empty;
  const auto reader = stub.PrepareUnaryCall(call.context(), "/grpc.health.v1.Health/Check",
                                            grpc::ByteBuffer(&empty, 1), call.queue());
  reader->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  reader->Finish(&response, &status, Call::tag());
  call.Wait();
  return status.error_message();
}

}  // namespace

Client::Connection::Connection(const std::string& address, const ClientOptions& options)
    : address_(address),
      options_(options),
      call_channel_(OpenChannel(address, options)),
      calls_(v1::Chorale::NewStub(call_channel_)),
      streams_(v1::Chorale::NewStub(OpenChannel(address, options))) {}

absl::Status Client::Connection::WaitUntilReady(absl::Time deadline,
                                                const Cancellation* cancellation) {
  while (true) {
    const grpc_connectivity_state state = call_channel_->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return absl::OkStatus();
    if (cancellation != nullptr && cancellation->cancelled()) {
      return absl::CancelledError("cancelled");
    }
    const absl::Time now = Clock::Real()->Now();
    absl::Status failure = NoServer(address_, "no answer");
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      failure = ConnectionFailure(address_, options_, FailureOf(call_channel_));
    }
    if (now >= deadline || failure.code() != absl::StatusCode::kUnavailable) return failure;
    call_channel_->WaitForStateChange(
        state, GrpcDeadline(std::min(deadline - now, Cancellation::kCheckInterval)));
  }
}

absl::Status CheckToken(const std::string& address, const ClientOptions& options) {
  if (options.token.empty()) return absl::OkStatus();
  if (absl::StartsWithIgnoreCase(options.token, "bearer ")) {
    return absl::InvalidArgumentError(
        "token: omit the word \"Bearer\", which is not part of the token");
  }
  // gRPC ends the process if metadata contains other bytes.
  if (!std::all_of(options.token.begin(), options.token.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError("token: must be printable ASCII without spaces");
  }
  if (options.tls.has_value() || IsLoopbackAddress(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("token: not sent to ", address, " without encryption; connect with TLS"));
}

absl::Status CheckMessageSize(const google::protobuf::Message& request) {
  const int64_t bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (bytes <= kMaxMessageBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the request has ", bytes, " bytes; the limit is ",
                                                 kMaxMessageBytes,
                                                 "; send fewer rows or values per call"));
}

}  // namespace chorale::client
