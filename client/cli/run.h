// The `chorale` command line.
#ifndef CHORALE_CLIENT_CLI_RUN_H_
#define CHORALE_CLIENT_CLI_RUN_H_

namespace chorale::client {

// Runs the command line in the arguments of main(), and returns the exit code. Its output is
// flushed. Throws nothing. Call once in a process, before it starts threads, because Run changes
// the environment.
int Run(int argc, char** argv);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_RUN_H_
