// Runs the server process, from its configuration to its exit status.
#ifndef CHORALE_SERVER_APP_RUN_SERVER_H_
#define CHORALE_SERVER_APP_RUN_SERVER_H_

#include "server/options/configuration.h"

namespace chorale {

// Serves until SIGTERM or SIGINT, or until the server fails. Returns the exit status: 0 after a
// graceful shutdown, 1 if the server could not start or has failed, 2 if a flag or the
// configuration is invalid; the log contains the reason. A reload reads the sources again. Call
// once, from main, before any other thread runs.
int RunServer(const ConfigurationSources& sources, const Configuration& configuration);

}  // namespace chorale

#endif  // CHORALE_SERVER_APP_RUN_SERVER_H_
