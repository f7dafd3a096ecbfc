// The limit of open files of the process.
#ifndef CHORALE_SERVER_NET_FILE_LIMIT_H_
#define CHORALE_SERVER_NET_FILE_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale {

// Raises the limit of open files of the process (RLIMIT_NOFILE) as far as permitted, and returns
// it. The usual limit of shells and service managers, 1024, exists for programs that use select().
int64_t RaiseFileLimit();

// InvalidArgument if the limit is too low for a server.
absl::Status CheckFileLimit(int64_t file_limit);

// The number of connections of a Listener that fit below a limit of open files, in addition to the
// files that the rest of the process needs. At least 1 for a limit of 4 or more.
int64_t ConnectionsThatFit(int64_t file_limit);

}  // namespace chorale

#endif  // CHORALE_SERVER_NET_FILE_LIMIT_H_
