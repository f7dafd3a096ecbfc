// Polls the health of a part of the engine.
#ifndef CHORALE_SERVER_PROCESS_HEALTH_WATCH_H_
#define CHORALE_SERVER_PROCESS_HEALTH_WATCH_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/periodic_task.h"

namespace chorale {

// The engine does not report that its backend failed or that its store is lost, so a thread polls
// it. Each part has its own watch: a disk that hangs does not delay the detection of a failed
// backend.
//
// Thread contract: one thread owns it.
class HealthWatch {
 public:
  // Calls `changed` on the watch's thread whenever the result of `ask` changes from Ok to an error
  // or back; it is Ok at first. `changed` must not destroy the watch.
  HealthWatch(const Clock* clock, absl::Duration period, std::function<absl::Status()> ask,
              std::function<void(const absl::Status&)> changed);

 private:
  void Check();

  const std::function<absl::Status()> ask_;
  const std::function<void(const absl::Status&)> changed_;
  bool healthy_ = true;  // used by the task only
  PeriodicTask task_;    // last: it uses all of the above
};

}  // namespace chorale

#endif  // CHORALE_SERVER_PROCESS_HEALTH_WATCH_H_
