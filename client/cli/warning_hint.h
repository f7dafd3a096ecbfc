// What a user of the program can do about the server's warnings.
#ifndef CHORALE_CLIENT_CLI_WARNING_HINT_H_
#define CHORALE_CLIENT_CLI_WARNING_HINT_H_

#include <string>

#include "chorale/v1/chorale.pb.h"

namespace chorale::client {

// Returns the option of `chorale register` that corrects the type that a warning reports, such as
// "use --categorical=zip"; empty if there is none.
std::string HintFor(const v1::Warning& warning);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_WARNING_HINT_H_
