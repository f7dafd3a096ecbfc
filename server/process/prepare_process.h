// Makes the process independent of its parent, and of the reader of its log.
#ifndef CHORALE_SERVER_PROCESS_PREPARE_PROCESS_H_
#define CHORALE_SERVER_PROCESS_PREPARE_PROCESS_H_

namespace chorale {

// From now on no signal ends the process by accident:
//   SIGPIPE   the reader of the log, or a connection, is gone: only the write fails
//   SIGXFSZ   a file reached its size limit: only the write fails
//   SIGHUP    a terminal was closed, or an operator requests a reload: it waits for ReloadTrigger
//   SIGUSR1, SIGUSR2   other servers reopen their logs on these signals: ignored
// In addition, standard input, output and error exist: otherwise the next opened file would get one
// of their numbers, and the log or a message of a library would be written into it.
//
// Call it first: other threads inherit its settings.
void PrepareProcess();

}  // namespace chorale

#endif  // CHORALE_SERVER_PROCESS_PREPARE_PROCESS_H_
