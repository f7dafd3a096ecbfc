// Makes the process independent of who started it, and of who reads its log.
#ifndef CHORALE_SERVER_LIFECYCLE_PREPARE_PROCESS_H_
#define CHORALE_SERVER_LIFECYCLE_PREPARE_PROCESS_H_

namespace chorale {

// From here on no signal ends the process by accident:
//   SIGPIPE   whoever read the log, or a connection, is gone: the write fails, and that is all
//   SIGXFSZ   a file reached its limit of size: likewise
//   SIGHUP    a terminal was closed, or somebody asks for a reload: it waits for ReloadTrigger
//   SIGUSR1, SIGUSR2   other servers reopen their logs by them: nothing
// And standard input, output and error exist: otherwise the next file that is opened would get one
// of their numbers, and the log or a library's message would be written into it.
//
// Call it first of all: other threads inherit what it does.
void PrepareProcess();

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_PREPARE_PROCESS_H_
