// The configuration of a server, merged from its sources.
#ifndef CHORALE_SERVER_OPTIONS_CONFIGURATION_H_
#define CHORALE_SERVER_OPTIONS_CONFIGURATION_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/mistakes.h"
#include "server/options/server_options.h"

namespace chorale {

// The sources that the program received at its start. The configuration file is read again at each
// reload.
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

// The command line overrides the environment, which overrides the file, which overrides the
// defaults. InvalidArgument has one line per error, which names the source, the flag and the valid
// values.
//
// Uses the process's flags: only one thread at a time may call it. `file_entries_before`: of the
// configuration to be replaced (ReadConfigFile).
absl::StatusOr<Configuration> LoadConfiguration(const ConfigurationSources& sources,
                                                int64_t file_entries_before = 0);

// The same, as far as the sources can be read, so that further checks are possible: invalid values
// are treated as not set.
Configuration ReadConfiguration(const ConfigurationSources& sources, int64_t file_entries_before,
                                Mistakes* mistakes);

// Only the address of the server: other flags must be well-formed, but need not be valid together.
absl::StatusOr<ListenTarget> LoadListenTarget(const ConfigurationSources& sources);

}  // namespace chorale

#endif  // CHORALE_SERVER_OPTIONS_CONFIGURATION_H_
