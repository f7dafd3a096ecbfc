#include "server/app/run_server.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/app/build_engine.h"
#include "server/app/check_everything.h"
#include "server/check_start.h"
#include "server/config/mistakes.h"
#include "server/memory/available_resources.h"
#include "server/memory/machine_plan.h"
#include "server/models/load_models.h"
#include "server/models/model_folders.h"
#include "server/models/warm_on_start.h"
#include "server/net/file_limit.h"
#include "server/process/reload_trigger.h"
#include "server/process/shutdown_signal.h"
#include "server/reload.h"
#include "server/server.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

// Added to the drain timeout: time to close the ports and the store.
constexpr absl::Duration kForcedExitMargin = absl::Seconds(10);

// Between two looks at the configuration file. A change counts after two of them.
constexpr absl::Duration kReloadPeriod = absl::Seconds(1);

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
  void AnnounceShutdown() {
    MutexLock lock(&mutex_);
    if (server_ != nullptr) server_->AnnounceShutdown();
  }
  void CutShort() {
    MutexLock lock(&mutex_);
    if (server_ != nullptr) server_->CutShort();
  }

 private:
  mutable Mutex mutex_;
  Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

constexpr int kFailed = 1;
constexpr int kWrongConfiguration = 2;  // another start would fail as well

void LogFailure(absl::string_view reason) {
  LogEvent(spdlog::level::err, "start_failed", {{"reason", std::string(reason)}});
}

// Returns the exit status.
int CannotStart(const absl::Status& status) {
  Mistakes mistakes;
  mistakes.Add(status);
  for (const std::string& mistake : mistakes.lines()) LogFailure(mistake);
  const bool mistake = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  return mistake ? kWrongConfiguration : kFailed;
}

// The options with no more connections than the process may have files.
ServerOptions FitFileLimit(ServerOptions options) {
  const int64_t file_limit = RaiseFileLimit();
  const int64_t fit = ConnectionsThatFit(file_limit);
  if (fit >= options.max_connections) return options;
  LogEvent(spdlog::level::warn, "max_connections_reduced",
           {{"max_connections", fit},
            {"configured", options.max_connections},
            {"file_limit", file_limit}});
  options.max_connections = std::max(fit, int64_t{1});
  return options;
}

// Chooses what no flag has set, and logs it.
absl::Status ChooseForMachine(const AvailableResources& resources, ProgramOptions* options) {
  ASSIGN_OR_RETURN(const MachinePlan plan,
                   FitToMachine(resources, WeightBytes(options->engine.models), options));
  std::vector<LogField> fields = plan.fields;
  std::error_code unknown;
  fields.push_back({"data_dir", std::filesystem::absolute(options->engine.data_dir, unknown)});
  LogEvent(spdlog::level::info, "machine", fields);
  if (!plan.warning.empty()) {
    LogEvent(spdlog::level::warn, "memory_overcommitted", {{"reason", plan.warning}});
  }
  if (!plan.limit_warning.empty()) {
    LogEvent(spdlog::level::warn, "memory_limit_ignored", {{"reason", plan.limit_warning}});
  }
  return absl::OkStatus();
}

// Says what a server may take once the limit of its cgroup is another one than `last`.
auto FollowCgroup(const ProgramOptions& configured, const ProgramOptions& planned, int64_t last) {
  return [configured, planned, last](bool on_host,
                                     int64_t weight_bytes) mutable -> std::optional<MemoryShares> {
    const MemoryBound cgroup = FindResources().cgroup;
    if (cgroup.bytes == std::exchange(last, cgroup.bytes)) return std::nullopt;
    return DivideAnew(cgroup, weight_bytes, on_host, configured, planned);
  };
}

// Serves until a signal says that the time has come; returns the exit status.
int Serve(const ConfigurationSources& sources, const Configuration& configuration,
          ShutdownSignal* signal, ReloadTrigger* reload, SignalTarget* serving) {
  ProgramOptions options = configuration.options;
  // All mistakes; what follows would end with the first.
  const AvailableResources resources = FindResources();
  const StartCheck check = CheckFiles(options, resources);
  for (const Mistakes* const mistakes : {&check.mistakes, &check.passing}) {
    for (const std::string& mistake : mistakes->lines()) LogFailure(mistake);
  }
  if (!check.mistakes.empty()) return kWrongConfiguration;
  if (!check.passing.empty()) return kFailed;
  if (const absl::Status status = ChooseForMachine(resources, &options); !status.ok()) {
    return CannotStart(status);
  }
  const std::string models_version = ModelsVersion(options.engine.models);
  ServerOptions server_options = FitFileLimit(options.server);
  server_options.find_memory_shares =
      FollowCgroup(configuration.options, options, resources.cgroup.bytes);
  absl::StatusOr<std::unique_ptr<Server>> started = Server::Start(server_options);
  if (!started.ok()) return CannotStart(started.status());
  const std::unique_ptr<Server> server = *std::move(started);
  bool on_gpu = false;
  const absl::Status opened = server->Open(
      [&](PrometheusMetrics* metrics) -> absl::StatusOr<std::unique_ptr<Engine>> {
        ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, BuildEngine(options.engine, metrics));
        on_gpu = engine->backend_info().backend != "cpu";
        WarmOnStart(*engine, options.engine.warm_on_start, options.engine.max_queued);
        // From here on it may acknowledge calls, so a signal must drain it.
        serving->Set(server.get());
        return engine;
      },
      [signal] { signal->Raise(); });
  if (!opened.ok()) {
    serving->Set(nullptr);
    return CannotStart(opened);
  }
  const auto load_models = [reload](const std::vector<std::string>& entries) {
    return LoadModels(entries, [reload] { return reload->stop_requested(); });
  };
  Reloader reloader(
      sources, configuration, models_version, load_models,
      [on_gpu](const ProgramOptions& next) { return CheckNextStart(next, on_gpu); }, server.get());
  reload->Start(kReloadPeriod, [&reloader] { reloader.Reload(); });
  signal->Wait();
  reload->RequestStop();  // but a model that is being read takes no time from the calls in flight
  server->Drain(options.server.clock->Now() + options.server.drain_timeout);
  reload->Stop();
  serving->Set(nullptr);
  return server->failed() ? kFailed : 0;
}

}  // namespace

int RunServer(const ConfigurationSources& sources, const Configuration& configuration) {
  const ProgramOptions& options = configuration.options;
  SignalTarget serving;
  ReloadTrigger reload(configuration.file, configuration.file_version,
                       options.server.security.Files());
  absl::Time drained_by;  // of the signal thread
  auto signal = std::make_unique<ShutdownSignal>(ShutdownSignal::Handlers{
      .first =
          [&](absl::Duration lame_duck) {
            drained_by = absl::Now() + lame_duck + options.server.drain_timeout;
            LogEvent(spdlog::level::info, "shutdown_requested",
                     {{"lame_duck_seconds", absl::ToDoubleSeconds(lame_duck)}});
            if (serving.has_server()) return serving.AnnounceShutdown();
            // Still loading: nothing was acknowledged that could be lost, so exit without waiting
            // for the models.
            absl::SleepFor(absl::Milliseconds(50));  // lets the log thread write
            _exit(0);
          },
      .repeated =
          [&] {
            LogEvent(spdlog::level::info, "shutdown_in_progress",
                     {{"complete_by", LogTime(drained_by)},
                      {"hint", std::string("send SIGINT twice to abort the calls in flight")}});
          },
      .hurry =
          [&] {
            LogEvent(spdlog::level::warn, "immediate_shutdown_requested");
            serving.CutShort();
          },
      .lame_duck = options.server.lame_duck,
      .limit = options.server.drain_timeout + kForcedExitMargin});
  StartLogging(options.log_format, options.log_level);
  for (const std::string& variable : configuration.unknown_variables) {
    LogEvent(spdlog::level::warn, "unknown_variable", {{"variable", variable}});
  }
  const int exit_status = Serve(sources, configuration, signal.get(), &reload, &serving);
  if (exit_status == 0) LogEvent(spdlog::level::info, "stopped");
  signal.reset();  // it logs
  if (!StopLogging()) _exit(exit_status);
  return exit_status;
}

}  // namespace chorale
