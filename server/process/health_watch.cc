#include "server/process/health_watch.h"

#include <utility>

namespace chorale {

HealthWatch::HealthWatch(const Clock* clock, absl::Duration period,
                         std::function<absl::Status()> ask,
                         std::function<void(const absl::Status&)> changed)
    : ask_(std::move(ask)),
      changed_(std::move(changed)),
      task_(clock, period, [this] { Check(); }) {}

void HealthWatch::Check() {
  const absl::Status health = ask_();
  if (health.ok() == healthy_) return;
  healthy_ = health.ok();
  changed_(health);
}

}  // namespace chorale
