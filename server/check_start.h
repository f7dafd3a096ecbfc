// Finds the errors that would prevent a server from starting, without starting it.
#ifndef CHORALE_SERVER_CHECK_START_H_
#define CHORALE_SERVER_CHECK_START_H_

#include <string>
#include <vector>

#include "server/config/mistakes.h"
#include "server/lifecycle/available_resources.h"
#include "server/server_options.h"

namespace chorale {

struct StartCheck {
  Mistakes mistakes;  // errors that prevent a start, with the flag or the file
  Mistakes passing;   // errors that prevent a start at the moment: others use its memory
  std::vector<std::string> warnings;  // the server starts, but the setting is probably a mistake
};

// No check changes anything. A server with the same options may run at the same time: the ports and
// the lock of the data folder that it holds are not errors.

// Reads the files of certificates, tokens and tenants, and checks the addresses, the memory that
// the flags require, the limit of open files and the folders that the server writes to. Takes
// milliseconds.
StartCheck CheckFiles(ProgramOptions options, const AvailableResources& resources);

// In addition, loads the models, opens the backend, tries the addresses and checks the store
// (CheckContextStore). On a GPU, the check needs memory in addition to the memory of a running
// server.
StartCheck CheckEverything(ProgramOptions options);

// The same check for the next start of a running server, without the parts that need much memory or
// time. It loads no model, because a reload does so if a model has changed. It does not open the
// backend; of the GPU backend, it only checks the library. `on_gpu`: whether the server computes on
// a GPU, which --backend=auto would select again. The memory in use, by this server or others, is
// not considered. The check may query a name server, and reads the database of another --data_dir.
StartCheck CheckNextStart(ProgramOptions options, bool on_gpu);

}  // namespace chorale

#endif  // CHORALE_SERVER_CHECK_START_H_
