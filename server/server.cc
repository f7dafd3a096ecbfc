#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

constexpr char kServiceName[] = "chorale.v1.Chorale";

// Limit of the HTTP/2 headers and trailers of one call.
constexpr int kMaxMetadataBytes = 16 << 10;
// A vanished client is detected after the sum of these two.
constexpr int kKeepaliveTimeMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// Clients may ping this often. gRPC's default of five minutes would disconnect reasonable clients.
constexpr int kMinPingIntervalMs = 30'000;

// Time for clients to receive the last bytes and to close their connections when no call is in
// flight. It is a limit: idle gRPC clients may check their connections only every five seconds.
constexpr absl::Duration kCloseGracePeriod = absl::Seconds(3);

// Threads that encode and send results.
constexpr int kReplyThreads = 2;

// Linking the reflection library adds the plugin to every server. This removes it.
class RemoveReflection : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->erase(std::remove_if(plugins->begin(), plugins->end(),
                                  [](const std::unique_ptr<grpc::ServerBuilderPlugin>& plugin) {
                                    return plugin->name() == "proto_server_reflection";
                                  }),
                   plugins->end());
  }
};

// gRPC takes the port modulo 2^16. Without a host both endpoints would listen on all interfaces,
// and the metrics endpoint would accept a list of addresses. None of these may happen by mistake.
absl::Status CheckPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 || address.find(',') != std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65'535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot listen on ", address, ": it must be host:port with a port of 0 to 65535"));
  }
  return absl::OkStatus();
}

void SetArguments(const ServerOptions& options, grpc::ServerBuilder* builder) {
  const auto message_bytes = static_cast<int>(options.max_message_bytes);
  builder->SetMaxReceiveMessageSize(message_bytes);
  builder->SetMaxSendMessageSize(message_bytes);
  // gRPC checks the size of a message after decompression: half a megabyte of gzip can take half a
  // gigabyte in spite of the limit. So compressed requests are refused (UNIMPLEMENTED).
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kMinPingIntervalMs);
  // Two servers on one port would share its connections at random; let the second one fail instead.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options),
      registration_memory_(options.registration_memory_bytes),
      blocking_(options.blocking_threads, options.max_blocking_queue),
      replies_(kReplyThreads, Executor::kUnbounded) {
  environment_.registry = &registry_;
  environment_.metrics = &metrics_;
  environment_.blocking = &blocking_;
  environment_.replies = &replies_;
  environment_.registration_memory = &registration_memory_;
  environment_.limits = options.limits;
  environment_.max_message_bytes = options.max_message_bytes;
  environment_.retry_delay = options.retry_delay;
  service_ = std::make_unique<ChoraleService>(&environment_);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  auto server = std::unique_ptr<Server>(new Server(options));
  RETURN_IF_ERROR(server->Bind());
  if (!options.metrics_address.empty()) {
    RETURN_IF_ERROR(CheckPort(options.metrics_address));
    auto endpoint = MetricsEndpoint::Start(options.metrics_address, server->metrics_);
    RETURN_IF_ERROR(endpoint.status());
    server->metrics_endpoint_ = *std::move(endpoint);
  }
  server->watchdog_ = std::make_unique<ClientWatchdog>(&server->registry_, &server->metrics_,
                                                       options.stalled_write_timeout);
  RETURN_IF_ERROR(server->WritePortFile());
  LogEvent(spdlog::level::info, "listening",
           {{"address", options.listen_address},
            {"port", int64_t{server->port()}},
            {"metrics_address", options.metrics_address},
            {"metrics_port", int64_t{server->metrics_port()}}});
  return server;
}

absl::Status Server::Bind() {
  RETURN_IF_ERROR(CheckPort(options_.listen_address));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetArguments(options_, &builder);
  if (!options_.reflection) builder.SetOption(std::make_unique<RemoveReflection>());
  builder.RegisterService(service_.get());
  builder.AddListeningPort(options_.listen_address, grpc::InsecureServerCredentials(), &port_);
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr || port_ <= 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options_.listen_address,
                     ": the address is malformed, or another process listens there"));
  }
  SetServing(false);
  return absl::OkStatus();
}

absl::Status Server::WritePortFile() const {
  if (options_.port_file.empty()) return absl::OkStatus();
  // Renaming is atomic: a process that waits for the file never reads half of it.
  const std::string temporary = absl::StrCat(options_.port_file, ".tmp");
  std::ofstream file(temporary);
  file << port_ << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), options_.port_file.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot write the port file ", options_.port_file,
                                               ": ", std::generic_category().message(errno)));
  }
  return absl::OkStatus();
}

void Server::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = grpc_->GetHealthCheckService();
  health->SetServingStatus("", serving);
  health->SetServingStatus(kServiceName, serving);
}

absl::Status Server::Open(const EngineFactory& factory, std::function<void()> backend_failed) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = factory(&metrics_);
  RETURN_IF_ERROR(engine.status());
  engine_ = *std::move(engine);
  metrics_.BuildInfo(CHORALE_VERSION, engine_->backend_description());
  environment_.engine = engine_.get();
  registry_.Open();
  SetServing(true);
  LogEvent(spdlog::level::info, "serving",
           {{"backend", engine_->backend_description()},
            {"models", static_cast<int64_t>(engine_->Models().size())}});
  health_watch_ = std::make_unique<HealthWatch>(
      engine_.get(), options_.health_period,
      [this, on_failure = std::move(backend_failed)](const absl::Status& health) {
        BackendFailed(health);
        if (on_failure) on_failure();
      });
  return absl::OkStatus();
}

void Server::BackendFailed(const absl::Status& health) {
  backend_failed_ = true;
  SetServing(false);
  LogEvent(spdlog::level::err, "backend_failed", {{"reason", std::string(health.message())}});
}

void Server::Drain(absl::Time deadline) {
  if (drained_) return;
  drained_ = true;
  health_watch_.reset();
  SetServing(false);
  registry_.Close();
  // A server that never opened has admitted no call, so there is nothing to log.
  const bool opened = engine_ != nullptr;
  if (opened) LogEvent(spdlog::level::info, "draining", {{"live_calls", registry_.live()}});
  // At the deadline the engine cancels its calls, and the registry those in the executors and the
  // streams that clients are still reading.
  if (opened) engine_->Drain(deadline);
  if (!registry_.WaitUntilEmpty(deadline)) {
    LogEvent(spdlog::level::warn, "cancelling", {{"live_calls", registry_.live()}});
    registry_.CancelAll();
  }
  // No admitted call is in flight. Clients get a moment to receive what was sent and to disconnect;
  // then gRPC closes the connections, even if calls such as a health watch are open.
  const absl::Time now = absl::Now();
  grpc_->Shutdown(absl::ToChronoTime(std::clamp(deadline, now, now + kCloseGracePeriod)));
  grpc_->Wait();
  watchdog_.reset();
  if (opened) LogEvent(spdlog::level::info, "drained");
}

void Server::CancelAll() { registry_.CancelAll(); }

Server::~Server() {
  if (grpc_ != nullptr) Drain(absl::Now());
  // Destroying the engine may produce replies, so it goes before the executors.
  grpc_.reset();
  engine_.reset();
}

}  // namespace chorale
