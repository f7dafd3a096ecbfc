// The configuration of a server, put together from its sources.
#ifndef CHORALE_SERVER_CONFIGURATION_H_
#define CHORALE_SERVER_CONFIGURATION_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/mistakes.h"
#include "server/server_options.h"

namespace chorale {

// What was given to the program when it started. The file that it names is read each time.
struct ConfigurationSources {
  std::vector<std::string> arguments;    // of the command line, without the program
  std::vector<std::string> environment;  // "NAME=value"
};

struct Configuration {
  ProgramOptions options;
  std::map<std::string, std::string> values;  // of all flags, by name
  std::string file_version;                   // FileVersion(file), from before it was read
  std::string file;                           // the one of --config, or empty
  int64_t file_entries = 0;
  std::vector<std::string> unknown_variables;  // CHORALE_... that are no flags
};

// The command line has precedence over the environment, that over the file, that over the defaults.
// InvalidArgument has a line for each mistake, which names the source, the flag and its valid
// values.
//
// Uses the process's flags: one thread at a time may call it. `file_entries_before`: of the
// configuration that is to be replaced (ReadConfigFile).
absl::StatusOr<Configuration> LoadConfiguration(const ConfigurationSources& sources,
                                                int64_t file_entries_before = 0);

// The same, as far as it can be read, so that what it names can be looked at as well: what is wrong
// counts as not given.
Configuration ReadConfiguration(const ConfigurationSources& sources, int64_t file_entries_before,
                                Mistakes* mistakes);

// Only where the server listens: other flags must be well-formed, but need not be valid together.
absl::StatusOr<ListenTarget> LoadListenTarget(const ConfigurationSources& sources);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIGURATION_H_
