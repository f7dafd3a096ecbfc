// Output that a command writes while it runs, so that it remains if the command ends early.
#ifndef CHORALE_CLIENT_CLI_GROWING_OUTPUT_H_
#define CHORALE_CLIENT_CLI_GROWING_OUTPUT_H_

#include <fstream>
#include <ostream>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace chorale::client {

// Returns the name of the file that has the results of a command that has ended early.
std::string PartialFile(const std::string& output);
// Whether there is such a file for an output: not for standard output (empty), a pipe or a device.
bool HasPartialFile(const std::string& output);

// Writes to standard output, to a pipe or a device, or otherwise to the partial file, which
// replaces the output file in Finish. If there can be no partial file, because the folder is not
// writable, the output is kept in memory until then. Used by one thread.
class GrowingOutput {
 public:
  // `output`: the output file; empty: standard output. With `append`, the output continues that of
  // an earlier command, whose partial file must exist.
  GrowingOutput(std::string output, bool append);

  // Returns the stream, which is opened at the first call, so that a command that fails before has
  // no effect.
  absl::StatusOr<std::ostream*> Open();
  // Passes on what was written. InvalidArgument if that is not possible.
  absl::Status Flush();
  // Call once, after the last Flush, if the output is complete.
  absl::Status Finish();
  // The place of what was written so far: "standard output", or a file; empty if it is in memory.
  const std::string& place() const { return place_; }

 private:
  const std::string output_;
  const bool append_;
  std::ofstream file_;
  std::ostringstream memory_;
  std::ostream* stream_ = nullptr;  // since Open
  bool has_partial_file_ = false;
  std::string place_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_GROWING_OUTPUT_H_
