#include "base/periodic_task.h"

#include <utility>

namespace chorale {

PeriodicTask::PeriodicTask(const Clock* clock, absl::Duration period, std::function<void()> task)
    : clock_(clock), period_(period), task_(std::move(task)), thread_([this] { Run(); }) {}

PeriodicTask::~PeriodicTask() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.NotifyAll();
  thread_.join();
}

void PeriodicTask::Run() {
  while (WaitForPeriod()) task_();
}

bool PeriodicTask::WaitForPeriod() {
  const absl::Time next = clock_->Now() + period_;
  MutexLock lock(&mutex_);
  while (!stopping_ && clock_->Now() < next) clock_->WaitUntil(next, &stopped_, &mutex_);
  return !stopping_;
}

}  // namespace chorale
