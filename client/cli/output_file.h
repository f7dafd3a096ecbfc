// Writes a file that the user names.
#ifndef CHORALE_CLIENT_CLI_OUTPUT_FILE_H_
#define CHORALE_CLIENT_CLI_OUTPUT_FILE_H_

#include <ostream>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace chorale::client {

// Calls `write` with a stream into the file. A file that was there is replaced as a whole, once all
// is written, and keeps its mode; a symbolic link stays, and what it leads to is replaced. Pipes
// and devices are written into, and so are files that cannot be replaced as they are: in a folder
// that is not writable, of another owner, with other names or with an access list. InvalidArgument,
// with the reason, if it cannot be written.
absl::Status WriteOutputFile(const std::string& path, absl::FunctionRef<void(std::ostream&)> write);

// WriteOutputFile's error as far as it can be known without writing anything: for commands that
// work for long before they have something to write.
absl::Status CheckOutputFile(const std::string& path);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_OUTPUT_FILE_H_
