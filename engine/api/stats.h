// The state and the memory of an engine.
#ifndef CHORALE_ENGINE_API_STATS_H_
#define CHORALE_ENGINE_API_STATS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace chorale {

// The numbers of contexts in the cache, by state, and their bytes in the pools.
struct ContextCounts {
  int64_t waiting = 0;
  int64_t reading = 0;
  int64_t encoding = 0;
  int64_t resident = 0;
  int64_t saving = 0;
  int64_t saved = 0;
  int64_t restoring = 0;
  int64_t pinned_bytes = 0;  // of the context pool, by contexts that cannot be evicted now
  int64_t host_bytes = 0;    // of the host pool

  bool operator==(const ContextCounts&) const = default;
};

// The state of the engine, at most a tick old.
struct EngineStats {
  // Requests that are admitted, and requests that wait for admission.
  int64_t running = 0;
  int64_t queued = 0;
  // Clients (ClientShare) whose requests wait for admission, and the largest share of a single
  // client, 0 to 1: its share of the buffer pool or of EngineOptions::max_running, whichever is
  // larger.
  int64_t waiting_clients = 0;
  double largest_client_share = 0;
  // The pending work of all requests, including contexts to be encoded: its duration at the rate of
  // the last seconds, the values to draw, the values whose density is to be computed, and the rows
  // to predict. At most 0.1 s older than the rest.
  absl::Duration backlog_time;
  int64_t backlog_values = 0;
  // The time since the engine thread began its last tick; zero while the engine is idle.
  absl::Duration tick_age;
  int64_t summary_queue = 0;  // parts of predictions and of statistics that wait for a thread

  ContextCounts contexts;
  int64_t resident_contexts = 0;
  // Memory in use, of the pools of PoolSizes.
  int64_t resident_bytes = 0;
  int64_t buffer_bytes = 0;
  int64_t encode_bytes = 0;
  int64_t registration_bytes = 0;  // see EngineOptions::max_registered_bytes
  // An upper estimate of the host memory that reading and encoding contexts needs in addition to
  // the pools.
  int64_t loading_bytes = 0;
};

// Bytes; 0 for a pool that the backend does not have.
struct PoolSizes {
  int64_t context = 0;
  int64_t buffer = 0;
  int64_t encode = 0;
  int64_t host_context = 0;
  int64_t registration = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_STATS_H_
