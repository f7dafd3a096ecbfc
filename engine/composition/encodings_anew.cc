#include "engine/composition/encodings_anew.h"

#include <algorithm>
#include <utility>

namespace chorale {
namespace {

// Other clients have precedence over encodings for which no call waits.
const ClientShare& BackgroundShare() {
  static const auto* const share = new ClientShare{"encoding anew", 0.25};
  return *share;
}

}  // namespace

bool EncodingsAnew::Wanted::IsAwaited() const {
  return std::any_of(waiters.begin(), waiters.end(),
                     [](const Waiter& waiter) { return waiter.waits(); });
}

void EncodingsAnew::Request(const ContextKey& context, const CallContext& call,
                            std::optional<Waiter> waiter) {
  {
    MutexLock lock(&mutex_);
    if (draining_ && !waiter.has_value()) return;
    auto found = std::find_if(waiting_.begin(), waiting_.end(),
                              [&](const Wanted& wanted) { return wanted.run.context == context; });
    const bool is_new = found == waiting_.end();
    if (is_new) {
      found = waiting_.emplace(found);
      found->run.context = context;
    }
    if (is_new || waiter.has_value()) {
      found->run.share = waiter.has_value() ? call.share : BackgroundShare();
      found->run.max_resident_bytes = call.max_resident_bytes;
    }
    if (waiter.has_value()) found->waiters.push_back(*std::move(waiter));
  }
  StartNext();
}

void EncodingsAnew::StartNext() {
  Run run;
  {
    MutexLock lock(&mutex_);
    if (running_.has_value() || waiting_.empty()) return;
    running_ = std::move(waiting_.front());
    waiting_.pop_front();
    run = running_->run;
  }
  start_(run);
}

void EncodingsAnew::OnEnd(const End& end) {
  if (end.outcome.has_value()) metrics_->EncodedAnew(*end.outcome);
  std::vector<Waiter> waiters;
  {
    MutexLock lock(&mutex_);
    Wanted ended = *std::exchange(running_, std::nullopt);
    if (end.outcome == EncodedAnewOutcome::kChanged && ended.IsAwaited()) {
      ended.run.control = std::make_shared<CallControl>();
      waiting_.push_front(std::move(ended));
    } else {
      waiters = std::move(ended.waiters);
      // Few rows were appended since the run began.
      if (end.outcome == EncodedAnewOutcome::kReplaced) {
        waiting_.remove_if([&](const Wanted& wanted) {
          return wanted.run.context == ended.run.context && !wanted.IsAwaited();
        });
      }
    }
  }
  for (const Waiter& waiter : waiters) waiter.done(end.status);
  StartNext();
}

void EncodingsAnew::Drain() {
  MutexLock lock(&mutex_);
  draining_ = true;
  waiting_.remove_if([](const Wanted& wanted) { return !wanted.IsAwaited(); });
  if (running_.has_value() && !running_->IsAwaited()) running_->run.control->cancelled = true;
}

}  // namespace chorale
