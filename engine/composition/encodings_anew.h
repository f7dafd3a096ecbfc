// The contexts that are encoded anew as a whole, after rows were appended to them.
#ifndef CHORALE_ENGINE_COMPOSITION_ENCODINGS_ANEW_H_
#define CHORALE_ENGINE_COMPOSITION_ENCODINGS_ANEW_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "engine/api/call_context.h"
#include "engine/api/metrics_sink.h"
#include "engine/session/call_control.h"
#include "engine/store/context_store.h"

namespace chorale {

// Encodes one context at a time, in the order of the requests, so that encodings anew take the
// space of at most one context and never compete with each other. Requests for the same context are
// combined until its encoding begins; a request that comes later is served by another run, because
// rows may have been appended in the meantime.
//
// A run is a sequence of jobs on several threads (EngineImpl::EncodeAnew): it reads the rows,
// encodes them while the context with the appended rows serves, and then replaces its content in
// the store and in the registry. If the context was changed meanwhile so that this is impossible,
// the run is given up, and begun again if a call waits for it. Nothing is stored before the end of
// a run, so it can end at any time.
//
// Thread-safe.
class EncodingsAnew {
 public:
  // A call that waits for an encoding. `done` must not block.
  struct Waiter {
    std::shared_ptr<const CallControl> control;
    std::function<void(const absl::Status&)> done;

    bool waits() const { return !control->ended && !control->cancelled; }
  };

  struct Run {
    ContextKey context;
    ClientShare share;               // the client whose share of the device it uses
    int64_t max_resident_bytes = 0;  // CallContext::max_resident_bytes
    // The run ends early once it is cancelled.
    std::shared_ptr<CallControl> control = std::make_shared<CallControl>();
  };

  // The outcome of a run. `status` is OK if the new encoding serves, or if there was nothing to do.
  struct End {
    absl::Status status;
    std::optional<EncodedAnewOutcome> outcome = {};  // nullopt if there was nothing to do
  };

  // `start` starts a run, without blocking; OnEnd must follow, on any thread.
  EncodingsAnew(std::function<void(const Run&)> start, MetricsSink* metrics)
      : start_(std::move(start)), metrics_(metrics) {}

  // Requests an encoding. A request without a waiter is in the background: its share is small, and
  // it is dropped once the engine drains.
  void Request(const ContextKey& context, const CallContext& call, std::optional<Waiter> waiter);
  // Reports the end of the run.
  void OnEnd(const End& end);
  // Drops the requests for which no call waits, and cancels the run unless a call waits for it.
  void Drain();

 private:
  struct Wanted {
    Run run;
    std::vector<Waiter> waiters;

    bool IsAwaited() const;
  };

  // Starts the next run, if there is none.
  void StartNext();

  const std::function<void(const Run&)> start_;
  MetricsSink* const metrics_;
  Mutex mutex_;
  std::list<Wanted> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<Wanted> running_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_COMPOSITION_ENCODINGS_ANEW_H_
