// Checks preconditions between parts of the engine. A violation is a bug in this program, never the
// effect of a user's input, a file or a device: the process prints the requirement and aborts.
#ifndef CHORALE_BASE_REQUIRE_H_
#define CHORALE_BASE_REQUIRE_H_

#include <cstdio>
#include <cstdlib>

namespace chorale {

inline void Require(bool condition, const char* what) {
  if (condition) [[likely]]
    return;
  std::fprintf(stderr, "chorale: violated requirement: %s\n", what);
  std::abort();
}

}  // namespace chorale

#endif  // CHORALE_BASE_REQUIRE_H_
