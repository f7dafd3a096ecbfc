#include "server/lifecycle/health_watch.h"

#include <chrono>
#include <utility>

namespace chorale {

HealthWatch::HealthWatch(const Engine* engine, absl::Duration period,
                         std::function<void(const absl::Status&)> failed)
    : engine_(engine), period_(period), failed_(std::move(failed)), thread_([this] { Watch(); }) {}

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
  while (true) {
    const auto next = std::chrono::steady_clock::now() + period;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && std::chrono::steady_clock::now() < next) {
        stopped_.WaitUntil(&mutex_, next);
      }
      if (stopping_) return;
    }
    const absl::Status health = engine_->Health();
    if (health.ok()) continue;
    failed_(health);
    return;
  }
}

}  // namespace chorale
