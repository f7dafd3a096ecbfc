// Texts as they are typed in a shell, for commands that messages propose.
#ifndef CHORALE_CLIENT_CPP_SHELL_WORD_H_
#define CHORALE_CLIENT_CPP_SHELL_WORD_H_

#include <string>

#include "absl/strings/string_view.h"

namespace chorale::client {

// The text as one word of a command, quoted where the shell would change it.
std::string ShellWord(absl::string_view text);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_SHELL_WORD_H_
