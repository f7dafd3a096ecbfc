// Aborts on a bug of our own. Never for what a user, a file or a device can cause.
#ifndef CHORALE_ENGINE_CHECK_H_
#define CHORALE_ENGINE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define CHORALE_CHECK(condition)                                                         \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#endif  // CHORALE_ENGINE_CHECK_H_
