#include "server/server.h"

#include <fcntl.h>
#include <grpc/support/time.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "base/file_descriptor.h"
#include "base/monotonic_clock.h"
#include "base/status_macros.h"
#include "server/memory/memory_plan.h"
#include "server/models/update_models.h"
#include "server/net/listen.h"
#include "server/process/health_services.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/process_statistics.h"

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

// Time for clients to receive the last bytes and to close their connections when no call is in
// flight. It is a limit: idle gRPC clients may check their connections only every five seconds.
constexpr absl::Duration kCloseGracePeriod = absl::Seconds(3);

// Time for clients to receive what was drawn for calls that are cut short, and then for those that
// were not fast enough to learn why their calls end.
constexpr absl::Duration kLastValuesPeriod = absl::Seconds(2);
constexpr absl::Duration kLastWordsPeriod = absl::Seconds(1);

// One: what a flood of large requests may use of the host.
constexpr int kLargeRequestThreads = 1;
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

std::string TemporaryPortFile(const ServerOptions& options) {
  return absl::StrCat(options.port_file, ".tmp");
}

absl::Status PortFileError(const ServerOptions& options) {
  return absl::UnavailableError(absl::StrCat("cannot write the port file ", options.port_file, ": ",
                                             std::generic_category().message(errno)));
}

// Sockets for the address that a flag names.
absl::StatusOr<std::vector<FileDescriptor>> ListenFor(const char* flag,
                                                      const std::string& address) {
  absl::StatusOr<std::vector<FileDescriptor>> sockets = ListenOn(address);
  if (sockets.ok()) return sockets;
  return absl::Status(sockets.status().code(),
                      absl::StrCat(flag, ": ", sockets.status().message()));
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

// Of the models that are served.
int64_t WeightBytesOf(const Engine& engine) {
  int64_t bytes = 0;
  for (const ModelInfo& model : engine.Models()) {
    bytes += model.parameters * static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options),
      limits_(options.limits),
      memory_limit_bytes_(options.memory_limit_bytes),
      has_own_memory_limit_(options.own_memory_limit),
      registration_memory_(options.registration_memory_bytes),
      reply_memory_(options.reply_memory_bytes),
      blocking_(options.blocking_threads, options.max_blocking_queue),
      large_requests_(kLargeRequestThreads, Executor::kUnbounded),
      replies_(kReplyThreads, Executor::kUnbounded) {
  if (!options.trace_endpoint.empty()) {
    SpanExporterOptions exporter;
    exporter.endpoint = options.trace_endpoint;
    exporter.resource = {CHORALE_VERSION, MakeInstanceId()};
    spans_ = std::make_unique<SpanExporter>(
        std::move(exporter), [this](int64_t count) { metrics_.SpansDropped(count); });
  }
  telemetry_ =
      std::make_unique<CallTelemetry>(spans_.get(), options.trace_sample_rate, options.slow_call);
  environment_.registry = &registry_;
  environment_.metrics = &metrics_;
  environment_.telemetry = telemetry_.get();
  environment_.blocking = &blocking_;
  environment_.large_requests = &large_requests_;
  environment_.replies = &replies_;
  environment_.registration_memory = &registration_memory_;
  environment_.reply_memory = &reply_memory_;
  environment_.limits = &limits_;
  environment_.allow_message = [this](const std::string& endpoint) {
    if (Listener* const listener = opened_listener_) listener->AllowMessage(endpoint);
  };
  environment_.max_message_bytes = options.max_message_bytes;
  environment_.retry_delay = options.retry_delay;
  service_ = std::make_unique<ChoraleService>(&environment_);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  auto server = std::unique_ptr<Server>(new Server(options));
  ASSIGN_OR_RETURN(std::unique_ptr<AccessControl> access, AccessControl::Load(options.security));
  server->access_ = std::move(access);
  if (const auto tls = server->access_->tls(); tls != nullptr) {
    const TlsIdentity::Content content = tls->content();
    if (!content.IsValid(absl::Now())) {
      LogEvent(spdlog::level::err, "certificate_invalid",
               {{"file", options.security.tls.certificate},
                {"valid_from", LogTime(content.valid_from)},
                {"valid_until", LogTime(content.valid_until)}});
    }
  }
  if (const auto unmatched = server->access_->UnmatchedTenants(); !unmatched.empty()) {
    LogEvent(spdlog::level::warn, "unmatched_tenants", unmatched);
  }
  if (const auto expired = server->access_->ExpiredTokens(absl::Now()); !expired.empty()) {
    LogEvent(spdlog::level::warn, "expired_tokens", expired);
  }
  server->environment_.access = server->access_.get();
  RETURN_IF_ERROR(server->Bind());
  RETURN_IF_ERROR(server->StartHttp());
  server->watchdog_ = std::make_unique<ClientWatchdog>(&server->registry_, &server->metrics_,
                                                       options.stalled_write_timeout);
  RETURN_IF_ERROR(server->PreparePortFile());
  LogEvent(spdlog::level::info, "listening",
           {{"address", options.listen_address},
            {"port", int64_t{server->port()}},
            {"tls", server->access_->tls() == nullptr ? "false" : "true"},
            {"authenticates", server->access_->authenticates() ? "true" : "false"},
            {"metrics_address", options.metrics_address},
            {"metrics_port", int64_t{server->metrics_port()}}});
  return server;
}

absl::Status Server::Bind() {
  ASSIGN_OR_RETURN(std::vector<FileDescriptor> sockets,
                   ListenFor("--listen_address", options_.listen_address));
  port_ = LocalPort(sockets.front());
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetArguments(options_, &builder);
  // Reflection is not a call of this API: it would answer callers that nobody knows.
  const bool reflection = options_.reflection && !access_->authenticates();
  if (!reflection) builder.SetOption(std::make_unique<RemoveReflection>());
  builder.RegisterService(service_.get());
  handover_ = std::make_unique<ConnectionHandover>(
      &builder, [this] { return MakeServerCredentials(access_->tls()); });
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr) return absl::InternalError("gRPC did not start");
  callback_threads_ = std::make_unique<CallbackThreads>();
  Listen(std::move(sockets));
  WatchMemory();  // clients connect from here on, while models are loaded as well
  MutexLock lock(&health_mutex_);
  UpdateHealth();
  return absl::OkStatus();
}

void Server::Listen(std::vector<FileDescriptor> sockets) {
  handover_->Start(sockets.front().get());
  listener_ = std::make_unique<Listener>(
      std::move(sockets),
      ConnectionLimits{.total = options_.max_connections,
                       .per_peer = options_.max_connections_per_peer,
                       .message_bytes = options_.max_message_bytes},
      Listener::Handlers{
          .accepted =
              [this](FileDescriptor connection, const std::string& peer) {
                handover_->HandOver(std::move(connection), peer);
              },
          .refused = [this](Refusal why) { metrics_.ConnectionRefused(NameOf(why)); },
          .failed = [this](const absl::Status& why) { Fail("listener_failed", why.message()); }});
  opened_listener_ = listener_.get();
}

void Server::WatchMemory() {
  memory_watch_ = std::make_unique<MemoryWatch>(MemoryWatch::Handlers{
      .limit = [this] { return CurrentMemoryLimit(); },
      .pause_accepting = [this](bool pause) { listener_->PauseAccepting(pause); },
      .each_second =
          [this] {
            metrics_.ConnectionsEnded("flood", listener_->EndFloods());
            access_->refusal_lines().LogSums(MonotonicNow());
            LogSumsOfGrpc(MonotonicNow());
            FollowMemoryLimit();
          },
      .end_busiest =
          [this](bool lately) {
            const int64_t ended =
                listener_->EndBusiest(lately ? BusySince::kMark : BusySince::kBeginning);
            metrics_.ConnectionsEnded("memory", ended);
            return ended;
          },
      .give_up = [this] { Fail("memory_exhausted", "memory use stayed near the limit"); },
      .raise_limit =
          [this](int64_t resident_bytes) {
            own_memory_limit_->Raise(resident_bytes);
            LogEvent(spdlog::level::warn, "memory_limit_raised",
                     {{"resident_bytes", resident_bytes}});
          }});
}

void Server::FollowMemoryLimit() {
  Engine* const engine = opened_engine_;
  if (engine == nullptr || !options_.find_memory_shares) return;
  const bool on_host = engine->backend_info().backend == "cpu";
  const std::optional<MemoryShares> shares =
      options_.find_memory_shares(on_host, WeightBytesOf(*engine));
  if (!shares.has_value()) return;
  memory_limit_bytes_ = shares->limit_bytes;
  has_own_memory_limit_ = shares->own_memory_limit;
  engine->LimitPools(shares->pools);
  registration_memory_.SetLimit(shares->registration_memory_bytes);
  std::vector<LogField> fields = {
      {"memory_limit_mib", shares->limit_bytes >> 20},
      {"registration_memory_mib", shares->registration_memory_bytes >> 20}};
  if (on_host) {
    fields.push_back({"context_pool_mib", shares->pools.context >> 20});
    fields.push_back({"buffer_pool_mib", shares->pools.buffer >> 20});
  }
  if (!shares->warning.empty()) fields.push_back({"reason", shares->warning});
  LogEvent(spdlog::level::warn, "memory_limit_changed", fields);
}

MemoryLimit Server::CurrentMemoryLimit() {
  if (const int64_t limit = memory_limit_bytes_; limit > 0) return {limit};
  Engine* const engine = opened_engine_;
  if (!has_own_memory_limit_ || engine == nullptr) return {0};
  const EngineStats stats = engine->Stats();
  OwnMemoryLimit::Work work;
  work.pools = stats.registration_bytes;
  if (engine->backend_info().backend == "cpu") {
    work.pools += stats.resident_bytes + stats.buffer_bytes;
  }
  // A dataset that arrives, its encoded form, and what is made of it.
  constexpr int64_t kCopiesOfDatasets = 3;
  work.passing = stats.loading_bytes + kCopiesOfDatasets * registration_memory_.used();
  work.weights = WeightBytesOf(*engine);
  if (!own_memory_limit_.has_value()) own_memory_limit_.emplace(ResidentBytes(), work);
  return {own_memory_limit_->Next(work), /*set=*/false};
}

absl::Status Server::StartHttp() {
  if (options_.metrics_address.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<FileDescriptor> sockets,
                   ListenFor("--metrics_address", options_.metrics_address));
  metrics_port_ = LocalPort(sockets.front());
  auto endpoint = HttpEndpoint::Start(
      std::move(sockets.front()),
      {.collectables = {metrics_.registry(),
                        std::make_shared<StateCollector>([this] { return State(); })},
       .alive = [this] { return live(); },
       .ready = [this] { return ready(); }});
  RETURN_IF_ERROR(endpoint.status());
  http_endpoint_ = *std::move(endpoint);
  return absl::OkStatus();
}

ServerState Server::State() const {
  MutexLock lock(&health_mutex_);
  ServerState state = {.engine = opened_engine_,
                       .ready = IsReady(),
                       .draining = shutdown_announced_,
                       .connections = listener_->connections(),
                       .max_connections = options_.max_connections,
                       .memory_limit_bytes = memory_limit_bytes_,
                       .registration_memory_bytes = registration_memory_.limit(),
                       .registering_bytes = registration_memory_.used(),
                       .certificate_expires = std::nullopt};
  if (access_->tls() != nullptr) state.certificate_expires = access_->tls()->expires();
  return state;
}

absl::Status Server::PreparePortFile() const {
  if (options_.port_file.empty()) return absl::OkStatus();
  const std::string path = TemporaryPortFile(options_);
  for (const std::string& earlier : {options_.port_file, path}) {
    if (unlink(earlier.c_str()) != 0 && errno != ENOENT) return PortFileError(options_);
  }
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return PortFileError(options_);
  const std::string text = absl::StrCat(port_, "\n");
  const auto size = static_cast<ssize_t>(text.size());
  return write(file.get(), text.data(), text.size()) == size ? absl::OkStatus()
                                                             : PortFileError(options_);
}

absl::Status Server::PublishPortFile() const {
  if (options_.port_file.empty()) return absl::OkStatus();
  // Renaming is atomic: a process that waits for the file never reads half of it.
  const int renamed = std::rename(TemporaryPortFile(options_).c_str(), options_.port_file.c_str());
  return renamed == 0 ? absl::OkStatus() : PortFileError(options_);
}

void Server::UpdateHealth() {
  grpc::HealthCheckServiceInterface* health = grpc_->GetHealthCheckService();
  const bool ready = IsReady();
  for (const char* service : {"", kApiService, kReadinessService}) {
    health->SetServingStatus(service, ready);
  }
  health->SetServingStatus(kLivenessService, !failed_);
}

bool Server::ready() const {
  MutexLock lock(&health_mutex_);
  return IsReady();
}

bool Server::IsReady() const {
  return admits_calls_ && !shutdown_announced_ && !failed_ && !store_lost_;
}

void Server::AnnounceShutdown() {
  MutexLock lock(&health_mutex_);
  shutdown_announced_ = true;
  UpdateHealth();
}

absl::Status Server::Open(const EngineFactory& factory, std::function<void()> on_failure) {
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, factory(&metrics_));
  if (!options_.memory_limit_found) {
    RETURN_IF_ERROR(CheckMemoryPlan(options_, engine->Pools(), engine->backend_info()));
  }
  engine_ = std::move(engine);
  AnnounceModels();
  opened_engine_ = engine_.get();
  environment_.engine = engine_.get();
  registry_.Open();
  {
    MutexLock lock(&health_mutex_);
    admits_calls_ = true;
    on_failure_ = std::move(on_failure);
    UpdateHealth();
  }
  if (failed_) NotifyOwner();
  RETURN_IF_ERROR(PublishPortFile());
  LogEvent(spdlog::level::info, "serving",
           {{"backend", engine_->backend_description()},
            {"models", static_cast<int64_t>(engine_->Models().size())}});
  backend_watch_ = std::make_unique<HealthWatch>(
      [this] { return engine_->Health(); }, options_.health_period,
      [this](const absl::Status& health) { Fail("backend_failed", health.message()); });
  store_watch_ = std::make_unique<HealthWatch>(
      [this] { return engine_->StoreHealth(); }, options_.health_period,
      [this](const absl::Status& health) { SetStoreLost(!health.ok()); });
  return absl::OkStatus();
}

void Server::Fail(absl::string_view event, absl::string_view reason) {
  LogEvent(spdlog::level::err, event, {{"reason", std::string(reason)}});
  {
    MutexLock lock(&health_mutex_);
    failed_ = true;
    UpdateHealth();
  }
  NotifyOwner();
}

void Server::NotifyOwner() {
  std::function<void()> on_failure;
  {
    MutexLock lock(&health_mutex_);
    on_failure = std::exchange(on_failure_, nullptr);
  }
  if (on_failure) on_failure();
}

void Server::SetStoreLost(bool lost) {
  MutexLock lock(&health_mutex_);
  store_lost_ = lost;
  UpdateHealth();
}

void Server::SetLimits(const Limits& limits) {
  limits_.Set(limits);
  engine_->SetLimits(limits);
}

absl::Status Server::UpdateModels(const std::vector<Model>& models) {
  absl::Status updated = chorale::UpdateModels(models, engine_.get());
  AnnounceModels();
  return updated;
}

void Server::AnnounceModels() {
  for (const ModelInfo& model : engine_->Models()) metrics_.ModelServed(model.name);
}

void Server::Drain(absl::Time deadline) {
  if (drained_) return;
  drained_ = true;
  backend_watch_.reset();
  store_watch_.reset();
  AnnounceShutdown();
  {
    MutexLock lock(&health_mutex_);
    on_failure_ = nullptr;  // there is nothing left for the owner to do
  }
  registry_.Close();
  // A server that never opened has admitted no call, so there is nothing to log.
  const bool opened = engine_ != nullptr;
  if (opened) {
    const absl::Duration left = std::max(deadline - MonotonicNow(), absl::ZeroDuration());
    LogEvent(spdlog::level::info, "draining",
             {{"live_calls", registry_.live()}, {"complete_by", LogTime(absl::Now() + left)}});
    engine_->Drain(deadline);  // which ends those that are late with UNAVAILABLE
  }
  // In the executors, and streams that clients are still reading.
  if (!registry_.WaitUntilEmpty(deadline)) CutShort();
  (void)registry_.WaitUntilEmpty(MonotonicNow() + kLastWordsPeriod);
  // The replies of all calls but those that were cut short are with the kernel. Clients get a
  // moment to close their connections; then gRPC closes them, even if calls such as a health watch
  // are open.
  listener_->StopAccepting();
  handover_->Stop();
  listener_->EndWriting();
  grpc_->Shutdown(gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_millis(absl::ToInt64Milliseconds(kCloseGracePeriod), GPR_TIMESPAN)));
  grpc_->Wait();
  watchdog_.reset();
  if (opened) LogEvent(spdlog::level::info, "drained");
}

void Server::CutShort() {
  registry_.Close();
  const absl::Time begin = MonotonicNow();
  if (Engine* const engine = opened_engine_) engine->Drain(begin);
  if (registry_.WaitUntilEmpty(begin + kLastValuesPeriod)) return;
  LogEvent(spdlog::level::warn, "calls_aborted", {{"live_calls", registry_.live()}});
  registry_.EndAll(CutShortByShutdown());
}

Server::~Server() {
  if (grpc_ != nullptr) Drain(MonotonicNow());
  http_endpoint_.reset();  // a scrape uses the engine and the listener
  memory_watch_.reset();
  listener_.reset();
  // Destroying the engine may produce replies, so it goes before the executors.
  grpc_.reset();
  handover_.reset();
  callback_threads_.reset();
  engine_.reset();
}

}  // namespace chorale
