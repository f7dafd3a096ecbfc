// Runs the server process, from its options to its exit status.
#ifndef CHORALE_SERVER_RUN_SERVER_H_
#define CHORALE_SERVER_RUN_SERVER_H_

#include "server/server_options.h"

namespace chorale {

// Serves until SIGTERM or SIGINT, or until the backend fails. Returns the exit status: 0 after a
// graceful shutdown, 1 if the server could not start or the backend has failed; the log has the
// reason. Call once, from main, before any other thread runs.
int RunServer(const ProgramOptions& options);

}  // namespace chorale

#endif  // CHORALE_SERVER_RUN_SERVER_H_
