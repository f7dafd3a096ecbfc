// The server: builds its parts, starts and drains them in a written order.
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

// Life, in order:
//   1. Start: the ports are bound; health says NOT_SERVING; metrics are up; calls are refused with
//      UNAVAILABLE.
//   2. Open: the engine is made, which takes as long as its models take to load.
//   3. Health says SERVING; calls are taken. Should the backend fail, health says NOT_SERVING and
//      the owner is told, who is to drain: only a new process helps.
//   4. Drain: health says NOT_SERVING; new calls are refused with UNAVAILABLE; those in flight may
//      finish until the deadline; then they are cancelled; the ports close.
//   5. The destructor ends the engine, which closes the store.
//
// Thread contract: one thread owns it; HurryUp, and what is const, may be called from any thread.
class Server {
 public:
  // Makes the engine; it outlives the metrics sink given to no other.
  using EngineFactory =
      std::function<absl::StatusOr<std::unique_ptr<Engine>>(PrometheusMetrics* metrics)>;

  // Unavailable when an address cannot be listened on, InvalidArgument when it is not host:port;
  // the message names it.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // Drains with no time to spare unless Drain was called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // REQUIRES: called once. The factory's error is returned as it is; the server then only refuses.
  // `backend_failed` is called once, on a thread of the server's, if the backend fails before
  // Drain; it must not call Drain itself.
  absl::Status Open(const EngineFactory& factory, std::function<void()> backend_failed);

  // Returns when no call is in flight any more and the ports are closed. A call that does not end
  // when it is cancelled, which is a bug, makes this wait for ever: main has a timer behind it.
  void Drain(absl::Time deadline);
  // Cancels all calls in flight: makes a Drain in progress immediate.
  void HurryUp();

  int port() const { return port_; }
  int metrics_port() const { return metrics_endpoint_ ? metrics_endpoint_->port() : 0; }
  bool backend_failed() const { return backend_failed_; }
  int64_t live_calls() const { return registry_.live(); }
  // For tests, and for clients in the same process.
  std::shared_ptr<grpc::Channel> InProcessChannel(const grpc::ChannelArguments& arguments);

 private:
  explicit Server(const ServerOptions& options);

  absl::Status Bind();
  absl::Status WritePortFile() const;
  void SetServing(bool serving);
  void BackendFailed(const absl::Status& health);

  // In the order of dependence: what is below may use what is above.
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
