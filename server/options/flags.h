// The command line of chorale-server.
#ifndef CHORALE_SERVER_OPTIONS_FLAGS_H_
#define CHORALE_SERVER_OPTIONS_FLAGS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/config/mistakes.h"
#include "server/options/server_options.h"

namespace chorale {

enum class FlagAction { kRun, kPrintHelp, kPrintVersion, kPrintConfig, kCheckConfig, kCheck };

// The source of each flag that is set, as errors name it: the command line's --threads, the
// environment's CHORALE_THREADS, or "server.yaml: threads". By flag name.
using FlagOrigins = std::map<std::string, std::string, std::less<>>;

// Sets the flags from "--name=value", "--name value", "--switch" and "--noswitch", and records
// their origin if `origins` is given. InvalidArgument, with one line for each argument that is an
// unknown flag, has an invalid value, or is not a flag; the other flags are set. (Abseil's own
// parser exits the process, with status 1 for an error and for --help.)
absl::StatusOr<FlagAction> ParseFlags(const std::vector<std::string>& arguments,
                                      FlagOrigins* origins = nullptr);

// The action that the last arguments of ParseFlags request, even if some of the arguments are
// invalid.
FlagAction AskedAction();

// Sets a flag from another source, and records its origin. InvalidArgument names the origin.
// REQUIRES: IsConfigurable(name).
absl::Status SetFlag(absl::string_view name, absl::string_view value, const std::string& origin,
                     FlagOrigins* origins);

// Whether a file or the environment may set the flag: it exists, and does not select an action such
// as --check.
bool IsConfigurable(absl::string_view name);
// Whether the flag's value is a list, separated by commas.
bool TakesList(absl::string_view name);

// The file that --config names; empty if there is none.
std::string ConfigFile();
// The values of --listen_address and --tls_certificate, unchecked.
ListenTarget ListenTargetOfFlags();

// Sets all flags to their defaults.
void ResetFlags();
// Names and values of all flags that can be configured, by name.
std::map<std::string, std::string> FlagValues();

// The options from the flags. Each error names the flag, or its origin, and the valid values; the
// option then has its default.
ProgramOptions OptionsFromFlags(const FlagOrigins& origins, Mistakes* mistakes);
// InvalidArgument with one line per error.
absl::StatusOr<ProgramOptions> OptionsFromFlags(const FlagOrigins& origins = {});

// All flags with their descriptions, units and defaults.
std::string HelpText();

}  // namespace chorale

#endif  // CHORALE_SERVER_OPTIONS_FLAGS_H_
