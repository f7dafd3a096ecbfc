// Finds the errors that would prevent a server from starting, without starting it.
#ifndef CHORALE_SERVER_CHECK_START_H_
#define CHORALE_SERVER_CHECK_START_H_

#include <string>
#include <vector>

#include "server/config/mistakes.h"
#include "server/memory/available_resources.h"
#include "server/options/server_options.h"

namespace chorale {

struct StartCheck {
  Mistakes mistakes;  // errors that prevent a start, with the flag or the file
  Mistakes passing;   // errors that prevent a start at the moment: others use its memory
  std::vector<std::string> warnings;  // the server starts, but the setting is probably a mistake
};

// No check changes anything outside the process, whose limit of open files is raised. A server with
// the same options may run at the same time: the ports and the lock of the data folder that it
// holds are not errors.

// Reads the files of certificates, tokens and tenants, and checks the addresses, the memory that
// the flags require, the limit of open files and the folders that the server writes to. Takes
// milliseconds.
StartCheck CheckFiles(ProgramOptions options, const AvailableResources& resources);

}  // namespace chorale

#endif  // CHORALE_SERVER_CHECK_START_H_
