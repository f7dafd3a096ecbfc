// The server: creates its parts, starts them and drains them in a defined order.
#ifndef CHORALE_SERVER_SERVER_H_
#define CHORALE_SERVER_SERVER_H_

#include <grpcpp/server.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "server/lifecycle/executor.h"
#include "server/lifecycle/health_watch.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/chorale_service.h"
#include "server/rpc/client_watchdog.h"
#include "server/rpc/reactor_registry.h"
#include "server/rpc/service_environment.h"
#include "server/server_options.h"
#include "server/telemetry/metrics_endpoint.h"
#include "server/telemetry/prometheus_metrics.h"

namespace chorale {

// Life cycle:
//   1. Start binds the ports. Health is NOT_SERVING, metrics are available, calls are refused with
//      UNAVAILABLE.
//   2. Open creates the engine, which loads the models.
//   3. Health is SERVING and calls are admitted. If the backend fails, health becomes NOT_SERVING
//      and the owner is notified, who must drain: only a new process helps.
//   4. Drain sets health to NOT_SERVING and refuses new calls with UNAVAILABLE. Calls in flight may
//      finish until the deadline, then they are cancelled. The ports close.
//   5. The destructor destroys the engine, which closes the store.
//
// Thread contract: one thread owns it; any thread may call CancelAll and the const methods.
class Server {
 public:
  // Creates the engine, which reports to `metrics`. The server owns both and destroys the engine
  // first.
  using EngineFactory =
      std::function<absl::StatusOr<std::unique_ptr<Engine>>(PrometheusMetrics* metrics)>;

  // Unavailable if it cannot listen on an address, InvalidArgument if one is not host:port; the
  // message names the address.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // Drains with a deadline of now, unless Drain was called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // REQUIRES: called once. Returns the factory's error unchanged; the server then keeps refusing
  // calls. `backend_failed` is called at most once, on a thread of the server, if the backend fails
  // before Drain; it must not call Drain itself.
  absl::Status Open(const EngineFactory& factory, std::function<void()> backend_failed);

  // Returns when no call is in flight and the ports are closed. Waits forever for a call that does
  // not end when it is cancelled, which is a bug; ShutdownSignal's timer then ends the process.
  void Drain(absl::Time deadline);
  // Cancels all calls in flight, so that a Drain in progress ends quickly.
  void CancelAll();

  int port() const { return port_; }
  int metrics_port() const { return metrics_endpoint_ ? metrics_endpoint_->port() : 0; }
  bool backend_failed() const { return backend_failed_; }
  int64_t live_calls() const { return registry_.live(); }

 private:
  explicit Server(const ServerOptions& options);

  absl::Status Bind();
  absl::Status WritePortFile() const;
  void SetServing(bool serving);
  void BackendFailed(const absl::Status& health);

  // In order of dependency: members may use those above them.
  const ServerOptions options_;
  PrometheusMetrics metrics_;
  ReactorRegistry registry_;
  ByteBudget registration_memory_;
  std::unique_ptr<MetricsEndpoint> metrics_endpoint_;
  std::unique_ptr<Engine> engine_;
  Executor blocking_;
  Executor replies_;
  ServiceEnvironment environment_;
  std::unique_ptr<ChoraleService> service_;
  std::unique_ptr<ClientWatchdog> watchdog_;
  std::unique_ptr<grpc::Server> grpc_;
  std::atomic<bool> backend_failed_{false};
  std::unique_ptr<HealthWatch> health_watch_;
  int port_ = 0;
  bool drained_ = false;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SERVER_H_
