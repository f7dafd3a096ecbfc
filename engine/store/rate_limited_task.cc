#include "engine/store/rate_limited_task.h"

#include <chrono>
#include <utility>

namespace chorale {

using SteadyClock = std::chrono::steady_clock;

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
  SteadyClock::time_point earliest = SteadyClock::now();
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!asked_ && !stopping_) changed_.Wait(&mutex_);
      while (!stopping_ && SteadyClock::now() < earliest) changed_.WaitUntil(&mutex_, earliest);
      if (stopping_) return;
      asked_ = false;
    }
    earliest = SteadyClock::now() + absl::ToChronoNanoseconds(period_);
    if (!task_()) Ask();
  }
}

}  // namespace chorale
