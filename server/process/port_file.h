// The file that tells other processes the port of the server.
#ifndef CHORALE_SERVER_PROCESS_PORT_FILE_H_
#define CHORALE_SERVER_PROCESS_PORT_FILE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace chorale {

// Both methods return Unavailable, with the path and the reason, if the file cannot be written. If
// the path is empty, there is no file and both return OK.
class PortFile {
 public:
  explicit PortFile(std::string path) : path_(std::move(path)) {}

  // Removes the file of an earlier server, and writes the port to a temporary file next to it.
  absl::Status Prepare(int port) const;
  // Renames the temporary file. A process that waits for the file never reads a part of it.
  absl::Status Publish() const;

 private:
  std::string TemporaryPath() const { return path_ + ".tmp"; }
  absl::Status Error() const;  // from errno

  const std::string path_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_PROCESS_PORT_FILE_H_
