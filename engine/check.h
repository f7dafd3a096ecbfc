// Aborts on a bug of our own. Never for what a user, a file or a device can cause.
#ifndef CHORALE_ENGINE_CHECK_H_
#define CHORALE_ENGINE_CHECK_H_

#include <cstdlib>

#include "spdlog/spdlog.h"

#define CHORALE_CHECK(condition)                                                   \
  do {                                                                             \
    if (!(condition)) {                                                            \
      spdlog::critical("{}:{}: check failed: {}", __FILE__, __LINE__, #condition); \
      spdlog::shutdown();                                                          \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

#endif  // CHORALE_ENGINE_CHECK_H_
