// What would keep a server from starting, found without starting one.
#ifndef CHORALE_SERVER_CHECK_START_H_
#define CHORALE_SERVER_CHECK_START_H_

#include <string>
#include <vector>

#include "server/config/mistakes.h"
#include "server/server_options.h"

namespace chorale {

struct StartCheck {
  Mistakes mistakes;                  // the server would not start; the flag or the file is named
  std::vector<std::string> warnings;  // it would, but hardly as it was meant
};

// Both change nothing, and a server may run meanwhile with the same options: that it has the ports
// and the lock on the data folder is no mistake.

// Reads the files of certificates, tokens and tenants, and looks at the addresses, the memory that
// the flags ask for and the folders that the server writes to. Takes milliseconds.
StartCheck CheckFiles(ProgramOptions options);

// And loads the models, opens the backend and tries the addresses. A GPU needs memory for that
// beside what a running server has taken.
StartCheck CheckEverything(ProgramOptions options);

}  // namespace chorale

#endif  // CHORALE_SERVER_CHECK_START_H_
