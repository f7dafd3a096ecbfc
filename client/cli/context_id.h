// Names for contexts that the user did not name.
#ifndef CHORALE_CLIENT_CLI_CONTEXT_ID_H_
#define CHORALE_CLIENT_CLI_CONTEXT_ID_H_

#include <string>

namespace chorale::client {

// An id from a file's name, in small ASCII letters: "Ames Houses.csv" -> "ames-houses",
// "Größe.csv" -> "grosse". Where letters are left out, for want of ASCII ones or of room, it ends
// in digits of a hash of the name, so that different files have different ids. Empty for standard
// input, "-".
std::string IdFromFile(const std::string& file);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_CONTEXT_ID_H_
