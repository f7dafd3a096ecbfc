// Flags in the environment: CHORALE_<FLAG IN UPPER CASE>.
#ifndef CHORALE_SERVER_CONFIG_ENVIRONMENT_VARIABLES_H_
#define CHORALE_SERVER_CONFIG_ENVIRONMENT_VARIABLES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace chorale {

struct FlagVariable {
  std::string variable;  // "CHORALE_MAX_PATHS"
  std::string flag;      // "max_paths"
  std::string value;
};

// The variables whose names begin with CHORALE_, of an environment in the form "NAME=value".
// Whether the flag exists is not checked here.
std::vector<FlagVariable> FlagVariables(const std::vector<std::string>& environment);

// Whether a variable is known not to be a flag: variables of the client, of the GPU backend and of
// tests, and variables that Kubernetes creates for services whose names begin with "chorale", such
// as CHORALE_PORT_50051_TCP_ADDR.
bool IsForeignVariable(absl::string_view variable);

}  // namespace chorale

#endif  // CHORALE_SERVER_CONFIG_ENVIRONMENT_VARIABLES_H_
