#include "client/cpp/connection.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/connection_failure.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"

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
  return grpc::CreateCustomChannel(address, Credentials(options), arguments);
}

// The error of a channel in TRANSIENT_FAILURE. gRPC reports it only through a call, which fails at
// once. If the channel has become ready in the meantime, the call is a harmless health check.
std::string FailureOf(const std::shared_ptr<grpc::Channel>& channel, absl::Time deadline) {
  Call call(deadline, /*cancellation=*/nullptr);
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
    const absl::Time now = absl::Now();
    absl::Status failure =
        absl::UnavailableError(absl::StrCat("no server at ", address_, ": no answer"));
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      failure = ConnectionFailure(address_, options_, FailureOf(call_channel_, now + kFailureWait));
    }
    if (now >= deadline || failure.code() != absl::StatusCode::kUnavailable) return failure;
    call_channel_->WaitForStateChange(
        state, absl::ToChronoTime(std::min(deadline, now + Cancellation::kCheckInterval)));
  }
}

absl::Status CheckMessageSize(const google::protobuf::Message& request) {
  const int64_t bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (bytes <= kMaxMessageBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the request takes ", bytes,
                                                 " bytes; the limit is ", kMaxMessageBytes,
                                                 ": request fewer rows or values at a time"));
}

}  // namespace chorale::client
