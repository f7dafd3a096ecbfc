#include "server/run_server.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "server/build_engine.h"
#include "server/logging.h"
#include "server/server.h"
#include "server/shutdown_signal.h"

namespace chorale {
namespace {

// Beyond the drain's own time: for closing the ports and the store.
constexpr absl::Duration kForcedExitMargin = absl::Seconds(10);

int Fail(const absl::Status& status) {
  LogEvent(spdlog::level::err, "cannot_start", {{"reason", std::string(status.message())}});
  StopLogging();
  return 1;
}

}  // namespace

int RunServer(const ProgramOptions& options) {
  std::atomic<Server*> serving{nullptr};
  ShutdownSignal signal({.first =
                             [&serving] {
                               LogEvent(spdlog::level::info, "shutdown_requested");
                               if (serving.load() != nullptr) return;
                               // Still loading: nothing was acknowledged that could be lost, so
                               // there is no reason to wait until it is through.
                               absl::SleepFor(absl::Milliseconds(50));  // for the log's thread
                               _exit(0);
                             },
                         .second =
                             [&serving] {
                               LogEvent(spdlog::level::warn, "shutdown_hurried");
                               serving.load()->HurryUp();
                             },
                         .limit = options.server.drain_timeout + kForcedExitMargin});
  StartLogging(options.log_format, options.log_level);

  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options.server);
  if (!server.ok()) return Fail(server.status());
  const absl::Status opened = (*server)->Open(
      [&options](PrometheusMetrics* metrics) { return BuildEngine(options.engine, metrics); });
  if (!opened.ok()) {
    server->reset();
    return Fail(opened);
  }
  serving = server->get();
  signal.Wait();
  (*server)->Drain(absl::Now() + options.server.drain_timeout);
  server->reset();
  LogEvent(spdlog::level::info, "stopped");
  StopLogging();
  return 0;
}

}  // namespace chorale
