// The `chorale` command line.
#ifndef CHORALE_CLIENT_CLI_RUN_H_
#define CHORALE_CLIENT_CLI_RUN_H_

namespace chorale::client {

// Runs the command that the arguments name, as main() gets them, and returns the exit code. Throws
// nothing. Once a process, before it has threads: it changes the environment.
int Run(int argc, char** argv);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_RUN_H_
