// What would keep a server from starting, found without starting one.
#ifndef CHORALE_SERVER_CHECK_START_H_
#define CHORALE_SERVER_CHECK_START_H_

#include <string>
#include <vector>

#include "server/config/mistakes.h"
#include "server/lifecycle/available_resources.h"
#include "server/server_options.h"

namespace chorale {

struct StartCheck {
  Mistakes mistakes;                  // the server would not start; the flag or the file is named
  Mistakes passing;                   // it would not start now, but later: others use its memory
  std::vector<std::string> warnings;  // it would, but hardly as it was meant
};

// All change nothing, and a server may run meanwhile with the same options: that it has the ports
// and the lock on the data folder is no mistake.

// Reads the files of certificates, tokens and tenants, and looks at the addresses, the memory that
// the flags ask for, the limit of open files and the folders that the server writes to. Takes
// milliseconds.
StartCheck CheckFiles(ProgramOptions options, const AvailableResources& resources);

// And loads the models, opens the backend, tries the addresses and looks at the store
// (CheckContextStore). A GPU needs memory for that beside what a running server has taken.
StartCheck CheckEverything(ProgramOptions options);

// For a server that runs, and its next start: the same, but for what takes much memory or long. No
// model is loaded: a reload does that by itself if one has changed. The backend is not opened, so
// that of a GPU only the library is looked for. `on_gpu`: where the server computes, which is where
// --backend=auto would. What others use of the memory does not count, and so neither does what the
// server itself does. May ask a name server, and reads the database of another --data_dir.
StartCheck CheckNextStart(ProgramOptions options, bool on_gpu);

}  // namespace chorale

#endif  // CHORALE_SERVER_CHECK_START_H_
