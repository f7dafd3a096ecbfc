#include "engine/scheduling/inbox.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/monotonic_clock.h"

namespace chorale {

void Inbox::Push(Command command) {
  MutexLock lock(&mutex_);
  if (closed_) return;
  commands_.push_back(std::move(command));
  changed_.NotifyOne();
}

void Inbox::Poke() {
  MutexLock lock(&mutex_);
  poked_ = true;
  changed_.NotifyOne();
}

void Inbox::Take(absl::Time deadline, std::vector<Command>* commands) {
  // The bound keeps the sum below from overflowing; waking up once an hour costs nothing.
  const absl::Duration delay = std::min(deadline - MonotonicNow(), absl::Hours(1));
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(delay);
  const bool wait = delay > absl::ZeroDuration();
  MutexLock lock(&mutex_);
  while (wait && commands_.empty() && !poked_ && std::chrono::steady_clock::now() < until) {
    changed_.WaitUntil(&mutex_, until);
  }
  poked_ = false;
  std::move(commands_.begin(), commands_.end(), std::back_inserter(*commands));
  commands_.clear();
}

void Inbox::Close(std::vector<Command>* commands) {
  MutexLock lock(&mutex_);
  closed_ = true;
  std::move(commands_.begin(), commands_.end(), std::back_inserter(*commands));
  commands_.clear();
}

}  // namespace chorale
