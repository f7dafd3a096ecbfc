// The checks of a start that use the engine's implementation: models, backend and store.
#ifndef CHORALE_SERVER_APP_CHECK_EVERYTHING_H_
#define CHORALE_SERVER_APP_CHECK_EVERYTHING_H_

#include "server/check_start.h"
#include "server/options/server_options.h"

namespace chorale {

// CheckFiles (server/check_start.h). In addition, loads the models, opens the backend, tries the
// addresses and checks the store (CheckContextStore). On a GPU, the check needs memory in addition
// to the memory of a running server.
StartCheck CheckEverything(ProgramOptions options);

// The same check for the next start of a running server, without the parts that need much memory or
// time. It loads no model, because a reload does so if a model has changed. It does not open the
// backend; of the GPU backend, it only checks the library. `on_gpu`: whether the server computes on
// a GPU, which --backend=auto would select again. The memory in use, by this server or others, is
// not considered. The check may query a name server, and reads the database of another --data_dir.
StartCheck CheckNextStart(ProgramOptions options, bool on_gpu);

}  // namespace chorale

#endif  // CHORALE_SERVER_APP_CHECK_EVERYTHING_H_
