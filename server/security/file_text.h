// Reads the small files that say who may use the server.
#ifndef CHORALE_SERVER_SECURITY_FILE_TEXT_H_
#define CHORALE_SERVER_SECURITY_FILE_TEXT_H_

#include <string>

#include "absl/status/statusor.h"

namespace chorale {

// The whole file, at most 16 MiB. InvalidArgument, naming the file: it cannot be read, or is
// larger.
absl::StatusOr<std::string> ReadFileText(const std::string& path);

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_FILE_TEXT_H_
