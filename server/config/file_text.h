// Reads small files that an operator names.
#ifndef CHORALE_SERVER_CONFIG_FILE_TEXT_H_
#define CHORALE_SERVER_CONFIG_FILE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// The whole file, at most 16 MiB, without a byte order mark; links are followed. InvalidArgument,
// naming the file: it cannot be read, is larger, or is no regular file. Never waits for another
// process, as opening a pipe would.
absl::StatusOr<std::string> ReadFileText(const std::string& path);

// A file that is being replaced, or whose disk is full, is empty for a moment. So one that had
// entries and has none counts only with the line "# intentionally empty". InvalidArgument, naming
// the file, if that is not there. `entries`: now; `before`: when it was last taken over.
absl::Status CheckEmptied(const std::string& path, absl::string_view text, int64_t entries,
                          int64_t before);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_FILE_TEXT_H_
