// Gauges, and counters of other components, which are read at a scrape.
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
#include "engine/api/engine.h"

namespace chorale {

// The state of the server at a scrape.
struct ServerState {
  Engine* engine = nullptr;  // null before it is open
  bool ready = false;        // admits calls
  bool draining = false;
  int64_t connections = 0;
  int64_t max_connections = 0;
  int64_t memory_limit_bytes = 0;                 // 0: none
  int64_t registration_memory_bytes = 0;          // --registration_memory_mib
  int64_t registering_bytes = 0;                  // of it in use
  std::optional<absl::Time> certificate_expires;  // nothing without TLS
};

// Thread-safe. A scrape may read the store's disk; while one scrape waits for it, others return the
// previous values, so that a disk that hangs cannot block all threads of the endpoint.
class StateCollector : public prometheus::Collectable {
 public:
  // The result of `take` must stay valid during the collection.
  explicit StateCollector(std::function<ServerState()> take) : take_(std::move(take)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  // The totals of the store, or nothing.
  std::optional<StoreTotals> Registered(Engine* engine) const;

  const std::function<ServerState()> take_;
  mutable Mutex mutex_;
  mutable bool asking_store_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::optional<StoreTotals> registered_ ABSL_GUARDED_BY(mutex_);  // from the last query
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_STATE_COLLECTOR_H_
