#include "engine/store/rate_limited_task.h"

#include <utility>

#include "base/clock.h"

namespace chorale {

RateLimitedTask::RateLimitedTask(absl::Duration period, std::function<bool()> task)
    : period_(period), task_(std::move(task)), thread_([this] { Run(); }) {}

RateLimitedTask::~RateLimitedTask() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void RateLimitedTask::Ask() {
  {
    MutexLock lock(&mutex_);
    asked_ = true;
  }
  changed_.NotifyAll();
}

void RateLimitedTask::Run() {
  const Clock& clock = *Clock::Real();
  absl::Time earliest = clock.Now();
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!asked_ && !stopping_) changed_.Wait(&mutex_);
      while (!stopping_ && clock.Now() < earliest) clock.WaitUntil(earliest, &changed_, &mutex_);
      if (stopping_) return;
      asked_ = false;
    }
    earliest = clock.Now() + period_;
    if (!task_()) Ask();
  }
}

}  // namespace chorale
