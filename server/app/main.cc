// chorale-server: reads the configuration and runs the server.

#include <unistd.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/fault.h"
#include "base/sanitized.h"
#include "server/app/check_everything.h"
#include "server/app/run_server.h"
#include "server/check_server.h"
#include "server/config/config_file.h"
#include "server/config/mistakes.h"
#include "server/options/configuration.h"
#include "server/options/flags.h"
#include "server/process/prepare_process.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

constexpr int kNotReady = 1;
constexpr int kWrongConfiguration = 2;

// A container's health check gives up after a few seconds.
constexpr absl::Duration kCheckTimeout = absl::Seconds(2);

// A line for each of the message.
void PrintError(const absl::Status& status) {
  if (status.ok()) return;
  for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    std::cerr << "chorale-server: " << line << "\n";
  }
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

// `mistakes` are those of the configuration itself.
int CheckConfig(const Configuration& configuration, Mistakes mistakes) {
  SetLogLevel(spdlog::level::off);  // what it says is said below
  const StartCheck check = CheckEverything(configuration.options);
  mistakes.Add(check.mistakes.ToStatus());
  for (const std::string& variable : configuration.unknown_variables) {
    std::cerr << "chorale-server: warning: " << variable << " does not name a flag\n";
  }
  for (const std::string& warning : check.warnings) {
    std::cerr << "chorale-server: warning: " << warning << "\n";
  }
  if (mistakes.empty() && check.passing.empty()) return Print("the server can start\n");
  PrintError(mistakes.ToStatus());
  PrintError(check.passing.ToStatus());
  if (mistakes.empty()) return kNotReady;
  return kWrongConfiguration;
}

// Sets the faults of CHORALE_FAULTS (ParseFaults), for tests of builds that have them.
absl::Status SetFaultsOf(const std::vector<std::string>& environment) {
  for (absl::string_view variable : environment) {
    if (!kSanitized || !absl::ConsumePrefix(&variable, "CHORALE_FAULTS=")) continue;
    absl::StatusOr<Faults> faults = ParseFaults(variable);
    if (!faults.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("CHORALE_FAULTS: ", faults.status().message()));
    }
    SetFaults(*std::move(faults));
  }
  return absl::OkStatus();
}

int Main(const ConfigurationSources& sources) {
  if (absl::Status status = SetFaultsOf(sources.environment); !status.ok()) {
    PrintError(status);
    return kWrongConfiguration;
  }
  const absl::StatusOr<FlagAction> action = ParseFlags(sources.arguments);
  if (action.ok() && *action == FlagAction::kPrintHelp) return Print(HelpText());
  if (action.ok() && *action == FlagAction::kPrintVersion)
    return Print("chorale-server " CHORALE_VERSION "\n");
  if (action.ok() && *action == FlagAction::kCheck) return Check(sources);
  // Also where the arguments are wrong: their mistakes are among those that it names.
  Mistakes mistakes;
  const Configuration configuration =
      ReadConfiguration(sources, /*file_entries_before=*/0, &mistakes);
  if (AskedAction() == FlagAction::kCheckConfig) return CheckConfig(configuration, mistakes);
  if (!mistakes.empty()) {
    PrintError(mistakes.ToStatus());
    return kWrongConfiguration;
  }
  if (*action == FlagAction::kPrintConfig)
    return Print(FormatConfig({configuration.values.begin(), configuration.values.end()},
                              configuration.options.given));
  return RunServer(sources, configuration);
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
