// The life of the process between its flags and its exit status.
#ifndef CHORALE_SERVER_RUN_SERVER_H_
#define CHORALE_SERVER_RUN_SERVER_H_

#include "server/server_options.h"

namespace chorale {

// Serves until SIGTERM or SIGINT, or until the backend fails. Returns the exit status: 0 after an
// orderly end, 1 when the server could not start or the backend has failed; the reason is in the
// log. Call once, from main, before any other thread
// runs.
int RunServer(const ProgramOptions& options);

}  // namespace chorale

#endif  // CHORALE_SERVER_RUN_SERVER_H_
