#ifndef CHORALE_ENGINE_CONTEXT_COUNTS_H_
#define CHORALE_ENGINE_CONTEXT_COUNTS_H_

#include <cstdint>

namespace chorale {

// Contexts in the cache, by state, and what they take of the pools.
struct ContextCounts {
  int64_t waiting = 0;
  int64_t reading = 0;
  int64_t encoding = 0;
  int64_t resident = 0;
  int64_t saving = 0;
  int64_t saved = 0;
  int64_t restoring = 0;
  int64_t pinned_bytes = 0;  // of the context pool, by what cannot be evicted now
  int64_t host_bytes = 0;    // of the host pool

  bool operator==(const ContextCounts&) const = default;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_COUNTS_H_
