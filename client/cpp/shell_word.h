// Quoting for a shell, for commands in messages.
#ifndef CHORALE_CLIENT_CPP_SHELL_WORD_H_
#define CHORALE_CLIENT_CPP_SHELL_WORD_H_

#include <string>

#include "absl/strings/string_view.h"

namespace chorale::client {

// Returns the text as a single word of a command, quoted if the shell would change it.
std::string ShellWord(absl::string_view text);

// Returns the text as the value of a list option: as a cell of CSV, quoted if the shell would
// change it.
std::string AsOptionValue(absl::string_view text);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_SHELL_WORD_H_
