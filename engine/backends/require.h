// Requirements of the backend interface: what breaks one is a bug of the caller, not bad input, so
// the process ends with the reason instead of going on with wrong numbers.
#ifndef CHORALE_ENGINE_BACKENDS_REQUIRE_H_
#define CHORALE_ENGINE_BACKENDS_REQUIRE_H_

#include <cstdio>
#include <cstdlib>

namespace chorale {

inline void Require(bool condition, const char* what) {
  if (condition) [[likely]]
    return;
  std::fprintf(stderr, "backend: broken requirement: %s\n", what);
  std::abort();
}

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKENDS_REQUIRE_H_
