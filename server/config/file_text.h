// Reads small files that an operator names.
#ifndef CHORALE_SERVER_CONFIG_FILE_TEXT_H_
#define CHORALE_SERVER_CONFIG_FILE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// Returns the content of the file, at most 16 MiB, without a byte order mark; links are followed.
// InvalidArgument, with the name of the file: it cannot be read, is larger, or is not a regular
// file. Never waits for another process, as opening a pipe would.
absl::StatusOr<std::string> ReadFileText(const std::string& path);

// A file that is being replaced, or whose disk is full, is empty for a moment. Therefore a file
// that had entries and has none is rejected unless it contains the line "# intentionally empty".
// InvalidArgument, with the name of the file, if it is rejected. `entries`: now; `before`: when the
// file was last applied.
absl::Status CheckEmptied(const std::string& path, absl::string_view text, int64_t entries,
                          int64_t before);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_FILE_TEXT_H_
