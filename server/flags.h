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
// with the argument: an unknown flag, a value that does not parse, or anything that is not a flag.
// (Abseil's own parser exits the process, with status 1 for an error and for --help.)
absl::StatusOr<FlagAction> ParseFlags(const std::vector<std::string>& arguments);

// The options that the flags set. InvalidArgument names the flag and its valid values.
absl::StatusOr<ProgramOptions> OptionsFromFlags();

// All flags with their meanings, units and defaults.
std::string HelpText();

}  // namespace chorale

#endif  // CHORALE_SERVER_FLAGS_H_
