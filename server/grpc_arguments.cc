#include "server/grpc_arguments.h"

#include <algorithm>
#include <climits>

#include "absl/time/time.h"
#include "server/net/traffic.h"

namespace chorale {
namespace {

// Limit of the HTTP/2 headers and trailers of one call.
constexpr int kMaxMetadataBytes = 16 << 10;
// A vanished client is detected after the sum of these two.
constexpr int kKeepaliveTimeMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// A connection without a call ends; its client makes another one when it needs it.
constexpr int kMaxConnectionIdleMs = 30 * 60'000;
// Time for a client to begin: to finish the handshake of its connection and send its settings.
constexpr int kHandshakeTimeoutMs = 10'000;

}  // namespace

void SetGrpcArguments(const ServerOptions& options, grpc::ServerBuilder* builder) {
  // Reactors reject messages over the limit with an error that has details. gRPC's own limit, whose
  // error has none, applies to other services and to messages that are much too large: a new
  // connection may send no more (TrafficAllowance).
  builder->SetMaxReceiveMessageSize(static_cast<int>(
      std::min<int64_t>(INT_MAX, TrafficAllowance::kFirstMessages * options.max_message_bytes)));
  builder->SetMaxSendMessageSize(static_cast<int>(options.max_message_bytes));
  // gRPC checks the size of a message after decompression: half a megabyte of gzip can take half a
  // gigabyte in spite of the limit. So compressed requests are refused (UNIMPLEMENTED).
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxConnectionIdleMs);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // gRPC's defaults, five minutes during a call and two hours without one, would disconnect
  // reasonable clients.
  builder->AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.min_ping_interval)));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  if (options.max_connection_age > absl::ZeroDuration()) {
    builder->AddChannelArgument(
        GRPC_ARG_MAX_CONNECTION_AGE_MS,
        static_cast<int>(absl::ToInt64Milliseconds(options.max_connection_age)));
    // A stream lasts as long as it needs, on the old connection.
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, INT_MAX);
  }
}

}  // namespace chorale
