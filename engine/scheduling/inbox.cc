#include "engine/scheduling/inbox.h"

#include <iterator>
#include <utility>

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
  MutexLock lock(&mutex_);
  while (commands_.empty() && !poked_ && clock_->Now() < deadline) {
    clock_->WaitUntil(deadline, &changed_, &mutex_);
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
