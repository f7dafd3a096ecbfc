// A flag that stops calls in flight.
#ifndef CHORALE_CLIENT_CPP_CANCELLATION_H_
#define CHORALE_CLIENT_CPP_CANCELLATION_H_

#include <atomic>
#include <initializer_list>

#include "absl/time/time.h"

namespace chorale::client {

// Calls check the flag every kCheckInterval. If it is set, they end with CANCELLED, also on the
// server. The flag cannot be reset.
//
// Any thread and any signal handler may set and read the flag, which is a lock-free atomic.
class Cancellation {
 public:
  static constexpr absl::Duration kCheckInterval = absl::Milliseconds(20);

  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
};

// Returns false, without waiting further, if one of the cancellations is set before `end`, a time
// of Clock::Real(). Null ones are never set.
bool SleepUntil(absl::Time end, std::initializer_list<const Cancellation*> cancellations);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CANCELLATION_H_
