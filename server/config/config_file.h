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

// The entries of the file in their order; none for an empty file. InvalidArgument names the file,
// and the key or the line: the file cannot be read, is not YAML, its top is not a map, a key occurs
// twice, a value is neither a scalar nor a list of scalars, or CheckEmptied rejects it. The names
// and values are not validated here. `entries_before`: the number of entries when the file was last
// applied.
absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path,
                                                        int64_t entries_before = 0);

// A YAML map that ReadConfigFile can read, with the values of the flags in `given`. Other flags are
// comments, so that a server that reads the file determines their values itself.
std::string FormatConfig(const std::vector<std::pair<std::string, std::string>>& values,
                         const std::set<std::string, std::less<>>& given);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_CONFIG_FILE_H_
