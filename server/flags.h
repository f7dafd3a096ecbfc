// The command line of chorale-server.
#ifndef CHORALE_SERVER_FLAGS_H_
#define CHORALE_SERVER_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/server_options.h"

namespace chorale {

enum class FlagAction { kRun, kPrintHelp, kPrintVersion };

// Sets the flags from "--name=value", "--name value", "--switch" and "--noswitch". InvalidArgument
// names the argument: an unknown flag, a value that does not parse, anything that is not a flag.
// (Abseil's own parser ends the process by itself, with status 1 for a mistake and for --help.)
absl::StatusOr<FlagAction> ParseFlags(const std::vector<std::string>& arguments);

// What the flags say. InvalidArgument names the flag and the values that it may have.
absl::StatusOr<ProgramOptions> OptionsFromFlags();

// Every flag with its meaning, unit and default.
std::string HelpText();

}  // namespace chorale

#endif  // CHORALE_SERVER_FLAGS_H_
