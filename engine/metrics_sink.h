// What the engine reports about itself. The server turns it into Prometheus metrics; tests record.
#ifndef CHORALE_ENGINE_METRICS_SINK_H_
#define CHORALE_ENGINE_METRICS_SINK_H_

#include <cstdint>

#include "absl/time/time.h"

namespace chorale {

// Thread-safe; calls are cheap and never block.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;

  // What a request waited for its turn and for memory, not for its context's data or encoding.
  virtual void QueueTime(absl::Duration time) {}
  virtual void TimeToFirstStep(absl::Duration time) {}  // arrival to a Sample's first values
  // `count` steps of tiles have run, in `each` of engine time: what the steps of a tick took of it,
  // in equal parts.
  virtual void StepTimes(absl::Duration each, int64_t count) {}
  virtual void TickTime(absl::Duration time, int64_t slices) {}
  virtual void EncodeTime(absl::Duration time) {}   // one context, from start to resident
  virtual void RestoreTime(absl::Duration time) {}  // likewise, by a copy from the host
  virtual void Eviction() {}
  virtual void Rejected(const char* reason) {}  // "queue_full", "queue_timeout", ...
  virtual void PathSteps(int64_t count) {}      // paths times steps drawn

  virtual void ResidentContexts(int64_t count, int64_t bytes) {}
  virtual void BufferBytes(int64_t in_use) {}
  virtual void Sessions(int64_t running, int64_t queued) {}
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_METRICS_SINK_H_
