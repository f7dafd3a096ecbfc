#include "server/process/health_watch.h"

#include <chrono>
#include <utility>

namespace chorale {

HealthWatch::HealthWatch(std::function<absl::Status()> ask, absl::Duration period,
                         std::function<void(const absl::Status&)> changed)
    : ask_(std::move(ask)),
      period_(period),
      changed_(std::move(changed)),
      thread_([this] { Watch(); }) {}

HealthWatch::~HealthWatch() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.NotifyAll();
  thread_.join();
}

void HealthWatch::Watch() {
  const auto period = absl::ToChronoNanoseconds(period_);
  bool healthy = true;
  while (true) {
    const auto next = std::chrono::steady_clock::now() + period;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && std::chrono::steady_clock::now() < next) {
        stopped_.WaitUntil(&mutex_, next);
      }
      if (stopping_) return;
    }
    const absl::Status health = ask_();
    if (health.ok() == healthy) continue;
    healthy = health.ok();
    changed_(health);
  }
}

}  // namespace chorale
