// The interface through which the engine reports events. The server converts them to Prometheus
// metrics, and tests record them. EngineStats contains states.
#ifndef CHORALE_ENGINE_API_METRICS_SINK_H_
#define CHORALE_ENGINE_API_METRICS_SINK_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "engine/backend/backend.h"
#include "engine/data/memory_set.h"

namespace chorale {

// The place where a request found the keys and values of its context.
enum class ContextLookup {
  kHit,      // resident
  kHostHit,  // in host memory
  kDiskHit,  // in a file
  kMiss,     // not found: encoded, or being encoded for another request
};

enum class EvictionReason {
  kSavedToHost,    // copied to host memory, because the context pool was full
  kDropped,        // dropped, because the context pool and the host pool were full
  kHostPoolFull,   // dropped from host memory, because the host pool was full
  kModelUnloaded,  // dropped, because its model was removed
};

// How the encoding anew of a context with appended rows ended.
enum class EncodedAnewOutcome {
  kReplaced,  // the new encoding serves
  kChanged,   // given up, because the context changed or was deleted meanwhile
  kFailed,    // given up because of an error, or because the server stops
};

// Thread-safe. Calls are cheap and never block.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;

  // --- Calls ----------------------------------------------------------------------------------
  // The time that a request waited for its turn and for memory, without the time for reading and
  // encoding its context.
  virtual void QueueTime(absl::Duration time) {}
  virtual void TimeToFirstStep(absl::Duration time) {}  // from arrival to a Sample's first values
  virtual void Rejected(const char* reason) {}          // "queue_full", "queue_timeout", ...
  virtual void UnreadStream() {}  // a Sample was ended, because its client did not read it

  // --- Work -----------------------------------------------------------------------------------
  // Results for callers: drawn values (kDecode), values whose density was computed (kDensity), or
  // predicted rows (kPredict).
  virtual void Values(WorkKind kind, const std::string& tenant, const std::string& model,
                      int64_t count) {}
  virtual void Flops(WorkKind kind, double flops) {}
  // The engine time of work for a tenant. The time of each tick is divided among the tenants with
  // work in it.
  virtual void EngineTime(const std::string& tenant, absl::Duration time) {}
  // `count` steps of tiles have run, each in `each` of engine time. The time of the steps of a tick
  // is divided equally.
  virtual void StepTimes(absl::Duration each, int64_t count) {}
  virtual void TickTime(absl::Duration time, int64_t slices) {}
  // The time of the summary of one tile of a prediction.
  virtual void SummaryTime(absl::Duration time) {}

  // --- Contexts -------------------------------------------------------------------------------
  // The time from the start of an encoding until the context is resident.
  virtual void EncodeTime(absl::Duration time) {}
  virtual void EncodedRows(const std::string& model, int64_t rows) {}
  // The keys that each layer and K/V head keeps of a context that was encoded as a memory set.
  virtual void MemorySetKeys(MemoryPolicy policy, int64_t keys) {}
  // The same for a context that is restored from host memory or a file.
  virtual void RestoreTime(absl::Duration time) {}
  virtual void Lookup(ContextLookup result) {}
  virtual void Eviction(EvictionReason reason) {}
  virtual void AppendedRows(int64_t rows) {}  // by one append
  virtual void EncodedAnew(EncodedAnewOutcome outcome) {}
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_METRICS_SINK_H_
