// Requirements of one part of the engine on another. What breaks one is a bug of our own, never
// what a user, a file or a device can cause: the process ends with the reason instead of going on
// with wrong numbers.
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
