#include "server/run_server.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "server/build_engine.h"
#include "server/lifecycle/shutdown_signal.h"
#include "server/server.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

// Added to the drain timeout: time to close the ports and the store.
constexpr absl::Duration kForcedExitMargin = absl::Seconds(10);

// The server that signals act on, if there is one. Thread-safe.
class SignalTarget {
 public:
  // `server` may be null. When this returns, the previous server is no longer in use here.
  void Set(Server* server) {
    MutexLock lock(&mutex_);
    server_ = server;
  }
  bool has_server() const {
    MutexLock lock(&mutex_);
    return server_ != nullptr;
  }
  void CancelAll() {
    MutexLock lock(&mutex_);
    if (server_ != nullptr) server_->CancelAll();
  }

 private:
  mutable Mutex mutex_;
  Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

void LogFailure(const absl::Status& status) {
  LogEvent(spdlog::level::err, "cannot_start", {{"reason", std::string(status.message())}});
}

// Serves until the first signal; returns the exit status.
int Serve(const ProgramOptions& options, ShutdownSignal* signal, SignalTarget* serving) {
  absl::StatusOr<std::unique_ptr<Server>> started = Server::Start(options.server);
  if (!started.ok()) {
    LogFailure(started.status());
    return 1;
  }
  const std::unique_ptr<Server> server = *std::move(started);
  const absl::Status opened = server->Open(
      [&](PrometheusMetrics* metrics) {
        auto engine = BuildEngine(options.engine, metrics);
        // From here on it may acknowledge calls, so a signal must drain it.
        if (engine.ok()) serving->Set(server.get());
        return engine;
      },
      [signal] { signal->Raise(); });
  if (!opened.ok()) {
    LogFailure(opened);
    return 1;
  }
  signal->Wait();
  server->Drain(absl::Now() + options.server.drain_timeout);
  serving->Set(nullptr);
  return server->backend_failed() ? 1 : 0;
}

}  // namespace

int RunServer(const ProgramOptions& options) {
  SignalTarget serving;
  ShutdownSignal signal({.first =
                             [&serving] {
                               LogEvent(spdlog::level::info, "shutdown_requested");
                               if (serving.has_server()) return;
                               // Still loading: nothing was acknowledged that could be lost, so
                               // exit without waiting for the models.
                               absl::SleepFor(absl::Milliseconds(50));  // lets the log thread write
                               _exit(0);
                             },
                         .second =
                             [&serving] {
                               LogEvent(spdlog::level::warn, "immediate_shutdown_requested");
                               serving.CancelAll();
                             },
                         .limit = options.server.drain_timeout + kForcedExitMargin});
  StartLogging(options.log_format, options.log_level);
  const int exit_status = Serve(options, &signal, &serving);
  if (exit_status == 0) LogEvent(spdlog::level::info, "stopped");
  StopLogging();
  return exit_status;
}

}  // namespace chorale
