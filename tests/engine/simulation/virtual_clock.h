// Time that passes only when a simulation lets it pass.
#ifndef CHORALE_TESTS_ENGINE_SIMULATION_VIRTUAL_CLOCK_H_
#define CHORALE_TESTS_ENGINE_SIMULATION_VIRTUAL_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/require.h"

namespace chorale::testing {

// A clock with a queue of events, for the simulation of a loop in a single thread: whoever waits
// for the clock runs the events until then. Events at the same time run in the order in which they
// were added. Not thread-safe.
class VirtualClock final : public Clock {
 public:
  using Event = std::function<void()>;

  // Adds an event. A time in the past counts as now.
  void At(absl::Time time, Event event) { events_.emplace(std::max(time, now_), std::move(event)); }
  void After(absl::Duration delay, Event event) { At(now_ + delay, std::move(event)); }

  // Moves on by `time`, and runs the events until then, each at its time. REQUIRES: not called by
  // an event.
  void Pass(absl::Duration time) {
    const absl::Time end = now_ + time;
    while (RunNext(end)) continue;
    MoveTo(end);
  }

  absl::Time Now() const override {
    Require(++looks_ < kMostLooks, "the loop spins: time stands still");
    return now_;
  }
  absl::Time TimeOfDay() const override { return Now(); }

  // Runs the next event, or moves on to `time` if that is earlier.
  void WaitUntil(absl::Time time, CondVar* /*changed*/, Mutex* mutex) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    mutex->Unlock();
    if (!RunNext(time)) {
      Require(time < absl::InfiniteFuture(), "nothing ends this wait");
      MoveTo(std::max(now_, time));
    }
    mutex->Lock();
  }

 private:
  // Returns false if no event is due by `end`.
  bool RunNext(absl::Time end) const {
    const auto next = events_.begin();
    if (next == events_.end() || next->first > end) return false;
    MoveTo(next->first);
    const Event event = std::move(next->second);
    events_.erase(next);
    event();
    return true;
  }

  void MoveTo(absl::Time time) const {
    if (time > now_) looks_ = 0;
    now_ = time;
  }

  // Far more looks at the clock than the work of any moment needs.
  static constexpr int64_t kMostLooks = 1'000'000;

  // Waiting is const for its callers, who cannot see that it runs events.
  mutable int64_t looks_ = 0;  // at the clock since time last passed
  mutable absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
  mutable std::multimap<absl::Time, Event> events_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SIMULATION_VIRTUAL_CLOCK_H_
