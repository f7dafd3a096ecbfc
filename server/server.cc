#include "server/server.h"

#include <grpc/support/time.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "server/grpc_arguments.h"
#include "server/memory/memory_plan.h"
#include "server/models/update_models.h"
#include "server/net/listen.h"
#include "server/process/health_services.h"
#include "server/telemetry/build_info.h"
#include "server/telemetry/logging.h"

namespace chorale {

namespace {

// Time for clients to receive the last bytes and to close their connections when no call is in
// flight. It is a limit: idle gRPC clients may check their connections only every five seconds.
constexpr absl::Duration kCloseGracePeriod = absl::Seconds(3);

// Time for clients to receive what was drawn for calls that are cut short, and then for those that
// were not fast enough to learn why their calls end.
constexpr absl::Duration kLastValuesPeriod = absl::Seconds(2);
constexpr absl::Duration kLastWordsPeriod = absl::Seconds(1);

// One: what a flood of large requests may use of the host.
constexpr int kListThreads = 1;
constexpr int kLargeRequestThreads = 1;
// Threads that encode and send results.
constexpr int kReplyThreads = 2;

// Sockets for the address that a flag names.
absl::StatusOr<std::vector<FileDescriptor>> ListenFor(const char* flag,
                                                      const std::string& address) {
  absl::StatusOr<std::vector<FileDescriptor>> sockets = ListenOn(address);
  if (sockets.ok()) return sockets;
  return absl::Status(sockets.status().code(),
                      absl::StrCat(flag, ": ", sockets.status().message()));
}

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options),
      port_file_(options.port_file),
      registry_(options.clock),
      limits_(options.limits),
      memory_limit_bytes_(options.memory_limit_bytes),
      has_own_memory_limit_(options.own_memory_limit),
      registration_memory_(options.registration_memory_bytes),
      reply_memory_(options.reply_memory_bytes),
      blocking_(options.blocking_threads, options.max_blocking_queue),
      lists_(kListThreads, options.max_blocking_queue),
      large_requests_(kLargeRequestThreads, Executor::kUnbounded),
      replies_(kReplyThreads, Executor::kUnbounded) {
  if (!options.trace_endpoint.empty()) {
    SpanExporterOptions exporter;
    exporter.endpoint = options.trace_endpoint;
    exporter.resource = {BuildVersion(), MakeInstanceId()};
    spans_ =
        std::make_unique<SpanExporter>(options.clock, std::move(exporter),
                                       [this](int64_t count) { metrics_.SpansDropped(count); });
  }
  telemetry_ =
      std::make_unique<CallTelemetry>(spans_.get(), options.trace_sample_rate, options.slow_call);
  environment_.clock = options.clock;
  environment_.registry = &registry_;
  environment_.metrics = &metrics_;
  environment_.telemetry = telemetry_.get();
  environment_.blocking = &blocking_;
  environment_.lists = &lists_;
  environment_.large_requests = &large_requests_;
  environment_.replies = &replies_;
  environment_.registration_memory = &registration_memory_;
  environment_.reply_memory = &reply_memory_;
  environment_.limits = &limits_;
  environment_.allow_message = [this](const std::string& endpoint) {
    if (Listener* const listener = opened_listener_) listener->AllowMessage(endpoint);
  };
  environment_.max_message_bytes = options.max_message_bytes;
  environment_.max_concurrent_calls = options.max_concurrent_streams;
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
  server->environment_.features = server->Features();
  RETURN_IF_ERROR(server->Bind());
  RETURN_IF_ERROR(server->StartHttp());
  server->watchdog_ = std::make_unique<ClientWatchdog>(
      options.clock, &server->registry_, &server->metrics_, options.stalled_write_timeout);
  RETURN_IF_ERROR(server->port_file_.Prepare(server->port_));
  LogEvent(spdlog::level::info, "listening",
           {{"address", options.listen_address},
            {"port", int64_t{server->port()}},
            {"tls", server->access_->tls() != nullptr},
            {"authenticates", server->access_->authenticates()},
            {"metrics_address", options.metrics_address},
            {"metrics_port", int64_t{server->metrics_port()}}});
  return server;
}

bool Server::reflects() const {
  // Reflection is not a call of this API: it would answer callers that nobody knows.
  return options_.reflection && !access_->authenticates();
}

std::vector<v1::ServerInfo::Feature> Server::Features() const {
  std::vector<v1::ServerInfo::Feature> features;
  if (reflects()) features.push_back(v1::ServerInfo::FEATURE_REFLECTION);
  if (access_->authenticates()) features.push_back(v1::ServerInfo::FEATURE_AUTHENTICATION);
  if (spans_ != nullptr) features.push_back(v1::ServerInfo::FEATURE_TRACING);
  return features;
}

absl::Status Server::Bind() {
  ASSIGN_OR_RETURN(std::vector<FileDescriptor> sockets,
                   ListenFor("--listen_address", options_.listen_address));
  port_ = LocalPort(sockets.front());
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  SetGrpcArguments(options_, &builder);
  builder.RegisterService(service_.get());
  if (reflects()) builder.RegisterService(&reflection_);
  builder.RegisterCallbackGenericService(&unknown_methods_);
  handover_ = std::make_unique<ConnectionHandover>(
      options_.clock, &builder, [this] { return MakeServerCredentials(access_->tls()); });
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
      options_.clock, std::move(sockets),
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

absl::Status Server::StartHttp() {
  if (options_.metrics_address.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<FileDescriptor> sockets,
                   ListenFor("--metrics_address", options_.metrics_address));
  metrics_port_ = LocalPort(sockets.front());
  const HttpEndpoint::Sources sources = {
      .collectables = {metrics_.registry(),
                       std::make_shared<StateCollector>([this] { return State(); })},
      .alive = [this] { return live(); },
      .ready = [this] { return ready(); }};
  for (FileDescriptor& socket : sockets) {
    ASSIGN_OR_RETURN(std::unique_ptr<HttpEndpoint> endpoint,
                     HttpEndpoint::Start(std::move(socket), sources));
    http_endpoints_.push_back(std::move(endpoint));
  }
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
  RETURN_IF_ERROR(port_file_.Publish());
  LogEvent(spdlog::level::info, "serving",
           {{"backend", engine_->backend_description()},
            {"models", static_cast<int64_t>(engine_->Models().size())}});
  backend_watch_ = std::make_unique<HealthWatch>(
      options_.clock, options_.health_period, [this] { return engine_->Health(); },
      [this](const absl::Status& health) { Fail("backend_failed", health.message()); });
  store_watch_ = std::make_unique<HealthWatch>(
      options_.clock, options_.health_period, [this] { return engine_->StoreHealth(); },
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
  AnnounceShutdown();
  {
    MutexLock lock(&health_mutex_);
    on_failure_ = nullptr;  // there is nothing left for the owner to do
  }
  registry_.Close();
  // A server that never opened has admitted no call, so there is nothing to log.
  const bool opened = engine_ != nullptr;
  if (opened) {
    const absl::Duration left = std::max(deadline - options_.clock->Now(), absl::ZeroDuration());
    LogEvent(spdlog::level::info, "draining",
             {{"live_calls", registry_.live()}, {"complete_by", LogTime(absl::Now() + left)}});
    engine_->Drain(deadline);  // which ends those that are late with UNAVAILABLE
  }
  // In the executors, and streams that clients are still reading.
  if (!registry_.WaitUntilEmpty(deadline)) CutShort();
  (void)registry_.WaitUntilEmpty(options_.clock->Now() + kLastWordsPeriod);
  // The replies of all calls but those that were cut short are with the kernel. Clients get a
  // moment to receive them and to close their connections; then gRPC closes them, even if calls
  // such as a health watch are open.
  listener_->StopAccepting();
  handover_->Stop();
  listener_->EndWriting();
  const absl::Time closed_by = options_.clock->Now() + kCloseGracePeriod;
  (void)listener_->WaitUntilDelivered(closed_by);
  const absl::Duration left = std::max(closed_by - options_.clock->Now(), absl::ZeroDuration());
  grpc_->Shutdown(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_millis(absl::ToInt64Milliseconds(left), GPR_TIMESPAN)));
  grpc_->Wait();
  watchdog_.reset();
  store_watch_.reset();  // last: it may wait for a disk that hangs
  if (opened) LogEvent(spdlog::level::info, "drained");
}

void Server::CutShort() {
  registry_.Close();
  const absl::Time begin = options_.clock->Now();
  if (Engine* const engine = opened_engine_) engine->Drain(begin);
  if (registry_.WaitUntilEmpty(begin + kLastValuesPeriod)) return;
  LogEvent(spdlog::level::warn, "calls_aborted", {{"live_calls", registry_.live()}});
  registry_.EndAll(CutShortByShutdown());
}

Server::~Server() {
  if (grpc_ != nullptr) Drain(options_.clock->Now());
  http_endpoints_.clear();  // a scrape uses the engine and the listener
  memory_watch_.reset();
  listener_.reset();
  // Destroying the engine may produce replies, so it goes before the executors.
  grpc_.reset();
  handover_.reset();
  callback_threads_.reset();
  engine_.reset();
}

}  // namespace chorale
