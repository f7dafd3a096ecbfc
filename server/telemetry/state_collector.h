// Gauges, and counters that others keep, which are read when Prometheus asks for them.
#ifndef CHORALE_SERVER_TELEMETRY_STATE_COLLECTOR_H_
#define CHORALE_SERVER_TELEMETRY_STATE_COLLECTOR_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "engine/engine.h"

namespace chorale {

// The server at the moment of a scrape.
struct ServerState {
  Engine* engine = nullptr;  // null before it is open
  bool ready = false;        // admits calls
  bool draining = false;
  int64_t connections = 0;
  int64_t max_connections = 0;
  int64_t memory_limit_bytes = 0;                 // 0: none
  int64_t registration_memory_bytes = 0;          // --registration_memory_mib
  int64_t registering_bytes = 0;                  // taken of it
  std::optional<absl::Time> certificate_expires;  // nothing without TLS
  std::vector<LeftOutModel> left_out_models;
};

// Thread-safe. A scrape may read the store's disk; while one waits for it, others show what was
// read last, so that a disk that stalls cannot hold up all threads that answer.
class StateCollector : public prometheus::Collectable {
 public:
  // What `take` returns must stay valid while it is collected.
  explicit StateCollector(std::function<ServerState()> take) : take_(std::move(take)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  // What the store holds, or nothing.
  std::optional<StoreTotals> Registered(Engine* engine) const;

  const std::function<ServerState()> take_;
  mutable Mutex mutex_;
  mutable bool asking_store_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::optional<StoreTotals> registered_ ABSL_GUARDED_BY(mutex_);  // when asked last
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_STATE_COLLECTOR_H_
