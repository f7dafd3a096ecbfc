// Reads small files that an operator names.
#ifndef CHORALE_SERVER_CONFIG_FILE_TEXT_H_
#define CHORALE_SERVER_CONFIG_FILE_TEXT_H_

#include <string>

#include "absl/status/statusor.h"

namespace chorale {

// The whole file, at most 16 MiB; links are followed. InvalidArgument, naming the file: it cannot
// be read, is larger, or is no regular file. Never waits for another process, as opening a pipe
// would.
absl::StatusOr<std::string> ReadFileText(const std::string& path);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_FILE_TEXT_H_
