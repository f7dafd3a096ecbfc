// The configuration file: a flat YAML map of names to scalars or lists of scalars.
#ifndef CHORALE_SERVER_CONFIG_CONFIG_FILE_H_
#define CHORALE_SERVER_CONFIG_CONFIG_FILE_H_

#include <cstdint>
#include <functional>
#include <set>
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
// has a key twice, a value that is neither a scalar nor a list of scalars, or that CheckEmptied
// refuses. What the names and values mean is not checked here. `entries_before`: when it was last
// taken over.
absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path,
                                                        int64_t entries_before = 0);

// A YAML map that ReadConfigFile understands: the values of flags that were given. The others are
// comments, so that a server that reads it chooses them again.
std::string FormatConfig(const std::vector<std::pair<std::string, std::string>>& values,
                         const std::set<std::string, std::less<>>& given);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_CONFIG_FILE_H_
