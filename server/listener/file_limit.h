// How many files the process may open.
#ifndef CHORALE_SERVER_LISTENER_FILE_LIMIT_H_
#define CHORALE_SERVER_LISTENER_FILE_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale {

// Raises the process's limit of open files (RLIMIT_NOFILE) as far as it may, and returns it. The
// limit that shells and service managers give by default, 1024, is for programs that use select().
int64_t RaiseFileLimit();

// InvalidArgument if a server cannot start, or hardly serve, with so few files.
absl::Status CheckFileLimit(int64_t file_limit);

// How many connections of a Listener fit below a limit of open files, beside the files that the
// rest of the process needs. At least 1 for a limit of 4 or more.
int64_t ConnectionsThatFit(int64_t file_limit);

}  // namespace chorale

#endif  // CHORALE_SERVER_LISTENER_FILE_LIMIT_H_
