#ifndef CHORALE_TESTS_ENGINE_STORE_FORK_ALONE_H_
#define CHORALE_TESTS_ENGINE_STORE_FORK_ALONE_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "gtest/gtest.h"
#include "tests/support/eventually.h"

namespace chorale {

#if defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline ptrdiff_t NumThreads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// fork() for a child that does more than to become another program: this process must have no other
// threads. The child would wait for ever for a lock that one of them held, such as that of a
// sanitizer's allocator.
inline pid_t ForkAlone() {
  // A thread that was joined is listed until the kernel has done with it. ThreadSanitizer has one
  // of its own, and by itself ends the child of a process with others.
  if (!kThreadSanitizer && !Eventually([] { return NumThreads() == 1; })) {
    ADD_FAILURE() << "this process has " << NumThreads() << " threads and must not fork";
    std::abort();
  }
  return fork();
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_STORE_FORK_ALONE_H_
