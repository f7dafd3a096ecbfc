// Continuing a 'chorale sample' that has ended early.
#ifndef CHORALE_CLIENT_CLI_SAMPLE_CONTINUATION_H_
#define CHORALE_CLIENT_CLI_SAMPLE_CONTINUATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace chorale::client {

// The paths that a command has not drawn.
struct OtherPaths {
  uint64_t seed = 0;
  int64_t first_path = 0;
  int64_t paths = 0;
  bool append = false;  // the output continues the earlier one
};

// Returns the command that draws the other paths, for a shell. `words` is the command line of the
// earlier command.
std::string CommandFor(const OtherPaths& other, const std::vector<std::string>& words);

// InvalidArgument unless the file has CSV lines of samples, of which the last one belongs to the
// path before `first_path`.
absl::Status CheckEndsBefore(int64_t first_path, const std::string& file);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_SAMPLE_CONTINUATION_H_
