// What the engine reports about itself as it happens. The server turns it into Prometheus metrics;
// tests record. What is a state and not an event is in EngineStats.
#ifndef CHORALE_ENGINE_API_METRICS_SINK_H_
#define CHORALE_ENGINE_API_METRICS_SINK_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "engine/backend/backend.h"

namespace chorale {

// Where a request found its context's keys and values.
enum class ContextLookup {
  kHit,      // resident
  kHostHit,  // in the host's memory
  kDiskHit,  // in a file
  kMiss,     // nowhere: encoded, or being encoded for another request
};

enum class EvictionReason {
  kSavedToHost,    // made room on the device, and was copied to the host's memory
  kDropped,        // made room on the device, and the host's memory had none for it
  kHostPoolFull,   // made room in the host's memory
  kModelUnloaded,  // its model went
};

// Thread-safe; calls are cheap and never block.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;

  // --- Calls ----------------------------------------------------------------------------------
  // What a request waited for its turn and for memory, not for its context's data or encoding.
  virtual void QueueTime(absl::Duration time) {}
  virtual void TimeToFirstStep(absl::Duration time) {}  // arrival to a Sample's first values
  virtual void Rejected(const char* reason) {}          // "queue_full", "queue_timeout", ...
  virtual void UnreadStream() {}  // a Sample was ended because its caller read nothing

  // --- Work -----------------------------------------------------------------------------------
  // Results for callers: values drawn (kDecode), values whose density was computed (kDensity), or
  // rows predicted (kPredict).
  virtual void Values(WorkKind kind, const std::string& tenant, const std::string& model,
                      int64_t count) {}
  virtual void Flops(WorkKind kind, double flops) {}
  // What work for a tenant took of the ticks' time: each tick's is divided among those who had work
  // in it.
  virtual void EngineTime(const std::string& tenant, absl::Duration time) {}
  // `count` steps of tiles have run, in `each` of engine time: what the steps of a tick took of it,
  // in equal parts.
  virtual void StepTimes(absl::Duration each, int64_t count) {}
  virtual void TickTime(absl::Duration time, int64_t slices) {}
  virtual void SummaryTime(absl::Duration time) {}  // of a tile of a prediction, on its own thread

  // --- Contexts -------------------------------------------------------------------------------
  virtual void EncodeTime(absl::Duration time) {}  // one context, from start to resident
  virtual void EncodedRows(const std::string& model, int64_t rows) {}
  virtual void RestoreTime(absl::Duration time) {}  // likewise, from the host's memory or a file
  virtual void Lookup(ContextLookup result) {}
  virtual void Eviction(EvictionReason reason) {}
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_METRICS_SINK_H_
