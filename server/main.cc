// chorale-server: reads the configuration and runs the server.

#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/check_server.h"
#include "server/config/config_file.h"
#include "server/configuration.h"
#include "server/flags.h"
#include "server/lifecycle/prepare_process.h"
#include "server/run_server.h"

namespace chorale {
namespace {

constexpr int kNotReady = 1;
constexpr int kWrongConfiguration = 2;

// A container's health check gives up after a few seconds.
constexpr absl::Duration kCheckTimeout = absl::Seconds(2);

void PrintError(const absl::Status& status) {
  std::cerr << "chorale-server: " << status.message() << "\n";
}

int Print(const std::string& text) {
  std::cout << text << std::flush;
  if (std::cout) return 0;
  PrintError(absl::UnavailableError("cannot write to standard output"));
  return kNotReady;
}

int Check(const ConfigurationSources& sources) {
  const absl::StatusOr<ListenTarget> target = LoadListenTarget(sources);
  const absl::Status status = target.ok() ? CheckServer(*target, kCheckTimeout) : target.status();
  if (status.ok()) return 0;
  PrintError(status);
  return kNotReady;
}

int Main(const ConfigurationSources& sources) {
  const absl::StatusOr<FlagAction> action = ParseFlags(sources.arguments);
  if (action.ok() && *action == FlagAction::kPrintHelp) return Print(HelpText());
  if (action.ok() && *action == FlagAction::kPrintVersion)
    return Print("chorale-server " CHORALE_VERSION "\n");
  if (action.ok() && *action == FlagAction::kCheck) return Check(sources);
  const absl::StatusOr<Configuration> configuration =
      action.ok() ? LoadConfiguration(sources) : action.status();
  if (!configuration.ok()) {
    PrintError(configuration.status());
    return kWrongConfiguration;
  }
  if (*action == FlagAction::kPrintConfig)
    return Print(FormatConfig({configuration->values.begin(), configuration->values.end()}));
  return RunServer(sources, *configuration);
}

}  // namespace
}  // namespace chorale

int main(int argc, char** argv) {
  chorale::PrepareProcess();
  chorale::ConfigurationSources sources;
  sources.arguments.assign(argv + 1, argv + argc);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    sources.environment.emplace_back(*variable);
  }
  return chorale::Main(sources);
}
