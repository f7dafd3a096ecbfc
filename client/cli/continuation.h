// Continuing a command that has ended early, after which a part of its results is written.
#ifndef CHORALE_CLIENT_CLI_CONTINUATION_H_
#define CHORALE_CLIENT_CLI_CONTINUATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/environment.h"

namespace chorale::client {

// An option that the continuing command has instead of that of the earlier command.
struct ReplacedOption {
  std::string name;  // "--first-path"
  uint64_t value = 0;
};

// Returns the command that continues an earlier command, for a shell. `words` is the command line
// of the earlier command; its options `replaced` and --append are replaced.
std::string ContinuingCommand(const std::vector<std::string>& words,
                              const std::vector<ReplacedOption>& replaced, bool append);

// Returns the errors of --append that can be detected in advance: another format than CSV, or those
// of CheckLastLine if the output file has a partial file.
absl::Status CheckAppend(const Environment& environment, Format format, int64_t number,
                         const std::string& owner);

// InvalidArgument unless the file has complete CSV lines, of which the last one begins with
// `number`. `owner` describes the results that must have this number: "path 39, ...".
absl::Status CheckLastLine(const std::string& file, int64_t number, const std::string& owner);

// The results that a command has written before it ended early.
struct PartialResults {
  std::string unit;   // "paths"
  int64_t count = 0;  // positive
  int64_t total = 0;
  // Where they are: "standard output", or a file; empty if there can be no partial file. Or the
  // error because of which they are not written.
  absl::StatusOr<std::string> place;
  std::string verb;                      // of the continuing command: "draws"
  std::vector<ReplacedOption> replaced;  // of the continuing command; empty: there is none
};

// Writes to standard error where the results are, and the command that writes the others. CSV
// output is continued; the others of another format become output of their own.
void NotePartialResults(const PartialResults& results, Format format,
                        const Environment& environment);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_CONTINUATION_H_
