// Writes the output file of a command.
#ifndef CHORALE_CLIENT_CLI_OUTPUT_FILE_H_
#define CHORALE_CLIENT_CLI_OUTPUT_FILE_H_

#include <ostream>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace chorale::client {

// Calls `write` with a stream into the file. An existing file is replaced as a whole after
// everything is written, and keeps its mode. A symbolic link is kept, and its destination is
// replaced. Pipes and devices are opened and written, and so are files that cannot be replaced
// without other changes: in a folder that is not writable, of another owner, with hard links, or
// with an access control list. InvalidArgument, with the reason, if the file cannot be written.
absl::Status WriteOutputFile(const std::string& path, absl::FunctionRef<void(std::ostream&)> write);

// Returns the errors of WriteOutputFile that can be detected without writing, for commands that
// take long before they write.
absl::Status CheckOutputFile(const std::string& path);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_OUTPUT_FILE_H_
