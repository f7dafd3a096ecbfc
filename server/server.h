// The server: creates its parts, starts them and drains them in a defined order.
#ifndef CHORALE_SERVER_SERVER_H_
#define CHORALE_SERVER_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "engine/api/engine.h"
#include "engine/data/live_limits.h"
#include "server/memory/memory_watch.h"
#include "server/memory/own_memory_limit.h"
#include "server/net/connection_handover.h"
#include "server/net/listener.h"
#include "server/options/server_options.h"
#include "server/process/callback_threads.h"
#include "server/process/executor.h"
#include "server/process/health_watch.h"
#include "server/process/port_file.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/chorale_service.h"
#include "server/rpc/client_watchdog.h"
#include "server/rpc/reactor_registry.h"
#include "server/rpc/reflection_service.h"
#include "server/rpc/service_environment.h"
#include "server/rpc/unknown_method_service.h"
#include "server/security/access_control.h"
#include "server/telemetry/http_endpoint.h"
#include "server/telemetry/prometheus_metrics.h"
#include "server/telemetry/state_collector.h"
#include "server/tracing/call_telemetry.h"
#include "server/tracing/span_exporter.h"

namespace chorale {

// Life cycle:
//   1. Start binds the ports. The server is live but not ready, metrics are available, and calls
//      are rejected with UNAVAILABLE.
//   2. Open creates the engine, which loads the models.
//   3. The server admits calls and is ready, and the port file exists. If the server fails (the
//      backend fails, it cannot accept connections, or its memory use stays too high), it is
//      neither live nor ready, and the owner, which must call Drain, is notified: only a restart
//      helps.
//   4. After AnnounceShutdown (the lame-duck period) it is not ready, but still admits calls.
//   5. Drain rejects new calls with UNAVAILABLE. Calls in flight may finish until the deadline;
//      then they are aborted. The ports close.
//   6. The destructor destroys the engine, which closes the store.
//
// gRPC's health service reports whether the server is live and ready;
// server/process/health_services.h contains the names.
//
// Thread contract: one thread owns it; any thread may call AnnounceShutdown, CutShort, SetSlowCall
// and the const methods.
class Server {
 public:
  // Creates the engine, which reports to `metrics`. The server owns both and destroys the engine
  // first.
  using EngineFactory =
      std::function<absl::StatusOr<std::unique_ptr<Engine>>(PrometheusMetrics* metrics)>;

  // Unavailable if the server cannot listen on an address, InvalidArgument if an address is not
  // host:port; the message names the address. InvalidArgument also if a file of
  // ServerOptions::security cannot be used.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // Drains with a deadline of now, unless Drain was called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // REQUIRES: called once. Returns the factory's error unchanged, or the error of CheckMemoryPlan;
  // the server then continues to reject calls. `on_failure` is called at most once, on any thread,
  // if the server fails before Drain or has already failed; it must not call Drain itself.
  absl::Status Open(const EngineFactory& factory, std::function<void()> on_failure);

  // REQUIRES, for the next three: open. May be called on any single thread, also during Drain: then
  // UpdateModels adds no model. UpdateModels is described in server/models/update_models.h.
  void SetLimits(const Limits& limits);
  absl::Status UpdateModels(const std::vector<Model>& models);
  std::vector<SkippedModel> SkippedModels() const { return engine_->SkippedModels(); }

  // Reads certificates, tokens and tenants again: AccessControl::Reload. Thread-safe.
  AccessControl::Reloaded ReloadSecurity() { return access_->Reload(absl::Now()); }

  // From now on the server is not ready.
  void AnnounceShutdown();

  // Returns when no call is in flight and the ports are closed. Waits
  // forever for a call that does not end when it is cancelled, which is a bug; ShutdownSignal's
  // timer then ends the process.
  void Drain(absl::Time deadline);
  // Ends all calls in flight with UNAVAILABLE, so that a Drain in progress ends soon: work stops
  // immediately, drawn values are sent, and the server does not wait for clients that do not read
  // them within a moment.
  void CutShort();

  PrometheusMetrics* metrics() { return &metrics_; }
  // Applies to calls that end from now on; see ServerOptions::slow_call. Thread-safe.
  void SetSlowCall(absl::Duration limit) { telemetry_->SetSlowCall(limit); }

  int port() const { return port_; }
  int metrics_port() const { return metrics_port_; }  // 0: no endpoint
  // The server admits calls, accepts registrations, and no shutdown was requested.
  bool ready() const;
  // The process should live: false once the server has failed.
  bool live() const { return !failed_; }
  bool failed() const { return failed_; }
  int64_t live_calls() const { return registry_.live(); }

 private:
  explicit Server(const ServerOptions& options);

  // REQUIRES, for the next two: access_ is loaded.
  bool reflects() const;
  std::vector<v1::ServerInfo::Feature> Features() const;
  absl::Status Bind();
  void Listen(std::vector<FileDescriptor> sockets);
  void WatchMemory();
  // For the memory watch's thread.
  void FollowMemoryLimit();
  MemoryLimit CurrentMemoryLimit();
  absl::Status StartHttp();
  ServerState State() const;
  // Updates the health service.
  void UpdateHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_mutex_);
  bool IsReady() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_mutex_);
  // The server has failed, and only a restart helps; logs `event` and the reason. Thread-safe.
  void Fail(absl::string_view event, absl::string_view reason);
  void NotifyOwner();  // notifies it of the failure, once, if a callback is set
  // A server with a lost store is not ready, but continues to live: its open files may be the only
  // copy of the registered contexts.
  void SetStoreLost(bool lost);
  void AnnounceModels();  // announces models to the metrics, so that their series begin at zero

  // In order of dependency: members may use those above them.
  const ServerOptions options_;
  // Written in two steps: a file that cannot be written is an error at start, but a process that
  // waits for the file must not find it before calls are admitted.
  const PortFile port_file_;
  PrometheusMetrics metrics_;
  std::unique_ptr<SpanExporter> spans_;  // null: no traces
  std::unique_ptr<CallTelemetry> telemetry_;
  std::unique_ptr<AccessControl> access_;
  ReactorRegistry registry_;
  LiveLimits limits_;
  std::atomic<int64_t> memory_limit_bytes_;  // 0: none
  std::atomic<bool> has_own_memory_limit_;   // if there is no other limit
  ByteBudget registration_memory_;
  ReplyMemory reply_memory_;
  std::unique_ptr<Engine> engine_;
  Executor blocking_;
  Executor lists_;
  Executor large_requests_;
  Executor replies_;
  ServiceEnvironment environment_;
  std::unique_ptr<ChoraleService> service_;
  ReflectionService reflection_;
  UnknownMethodService unknown_methods_;
  std::unique_ptr<ClientWatchdog> watchdog_;
  std::unique_ptr<ConnectionHandover> handover_;
  std::unique_ptr<CallbackThreads> callback_threads_;
  std::unique_ptr<grpc::Server> grpc_;
  std::atomic<Engine*> opened_engine_{nullptr};
  std::atomic<Listener*> opened_listener_{nullptr};
  mutable Mutex health_mutex_;
  bool admits_calls_ ABSL_GUARDED_BY(health_mutex_) = false;
  bool shutdown_announced_ ABSL_GUARDED_BY(health_mutex_) = false;
  std::atomic<bool> failed_{false};
  bool store_lost_ ABSL_GUARDED_BY(health_mutex_) = false;  // see Engine::StoreHealth
  std::function<void()> on_failure_ ABSL_GUARDED_BY(health_mutex_);
  std::unique_ptr<HealthWatch> backend_watch_;
  std::unique_ptr<HealthWatch> store_watch_;
  int port_ = 0;  // 0: a Unix socket
  std::unique_ptr<Listener> listener_;
  std::optional<OwnMemoryLimit> own_memory_limit_;  // the watch's; from the opening on
  std::unique_ptr<MemoryWatch> memory_watch_;
  bool drained_ = false;
  int metrics_port_ = 0;
  std::vector<std::unique_ptr<HttpEndpoint>> http_endpoints_;  // one for each address
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SERVER_H_
