// A request in flight, and how its results are delivered.
#ifndef CHORALE_ENGINE_API_CALL_H_
#define CHORALE_ENGINE_API_CALL_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/request.h"

namespace chorale {

// Receives the result of a request, once, on the engine thread. It must not block.
template <typename Result>
using Callback = std::function<void(absl::StatusOr<Result>)>;

// Receives the results of one Sample, on the engine thread. It must not block, and must not call
// the engine except through Call. OnDone is called exactly once, and last.
class SampleObserver {
 public:
  virtual ~SampleObserver() = default;
  virtual void OnBlock(SampleBlock block) = 0;
  virtual void OnDone(const absl::Status& status, const SampleSummary& summary) = 0;
};

// A request in flight. Thread-safe; may outlive the engine and be dropped at any time.
class Call {
 public:
  virtual ~Call() = default;
  // Stops the request within one tick; the observer or callback then receives CANCELLED. No-op
  // after the end of the request.
  virtual void Cancel() = 0;
  // Reports that `values` values of the delivered blocks were passed on. The engine does not
  // advance a Sample with more than EngineOptions::max_unacknowledged_values outstanding values: a
  // slow reader slows only itself.
  virtual void Acknowledge(int64_t values) = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_CALL_H_
