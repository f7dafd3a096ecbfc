// Names for contexts that the user did not name.
#ifndef CHORALE_CLIENT_CLI_CONTEXT_ID_H_
#define CHORALE_CLIENT_CLI_CONTEXT_ID_H_

#include <string>

namespace chorale::client {

// Returns an id derived from the name of a file, in lower-case ASCII letters: "Ames Houses.csv" ->
// "ames-houses", "Größe.csv" -> "grosse". If letters are omitted, because they have no ASCII form
// or exceed the limit of the length, the id ends in a hash of the name, so that distinct files have
// distinct ids. Empty for standard input, "-".
std::string IdFromFile(const std::string& file);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_CONTEXT_ID_H_
