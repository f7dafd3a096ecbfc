// chorale-server: reads the flags and runs the server.

#include <iostream>

#include "server/flags.h"
#include "server/run_server.h"

int main(int argc, char** argv) {
  constexpr int kWrongFlag = 2;
  const absl::StatusOr<chorale::FlagAction> action =
      chorale::ParseFlags(std::vector<std::string>(argv + 1, argv + argc));
  if (action.ok() && *action == chorale::FlagAction::kPrintHelp) {
    std::cout << chorale::HelpText();
    return 0;
  }
  if (action.ok() && *action == chorale::FlagAction::kPrintVersion) {
    std::cout << "chorale-server " << CHORALE_VERSION << "\n";
    return 0;
  }
  const absl::StatusOr<chorale::ProgramOptions> options =
      action.ok() ? chorale::OptionsFromFlags() : action.status();
  if (!options.ok()) {
    std::cerr << "chorale-server: " << options.status().message() << "\n";
    return kWrongFlag;
  }
  return chorale::RunServer(*options);
}
