// The configuration file: a flat YAML map of names to scalars or lists of scalars.
#ifndef CHORALE_SERVER_CONFIG_CONFIG_FILE_H_
#define CHORALE_SERVER_CONFIG_CONFIG_FILE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace chorale {

struct ConfigEntry {
  enum class Kind { kScalar, kList };

  std::string name;
  Kind kind = Kind::kScalar;
  std::vector<std::string> values;  // as written; of a scalar exactly one
};

// The file's entries in their order; none for an empty file. InvalidArgument names the file, and
// the key or the line: a file that cannot be read, that is not YAML, whose top is not a map, that
// has a key twice, or a value that is neither a scalar nor a list of scalars. What the names and
// values mean is not checked here.
absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path);

// A YAML map that ReadConfigFile understands.
std::string FormatConfig(const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_CONFIG_FILE_H_
