#include "server/rpc/reactor_registry.h"

#include <string>
#include <vector>

#include "base/error_details.h"
#include "server/rpc/live_call.h"

namespace chorale {

void ReactorRegistry::Open() {
  MutexLock lock(&mutex_);
  if (state_ == State::kStarting) state_ = State::kOpen;
}

void ReactorRegistry::Close() {
  MutexLock lock(&mutex_);
  state_ = State::kClosed;
}

absl::Status ReactorRegistry::Add(LiveCall* call) {
  MutexLock lock(&mutex_);
  switch (state_) {
    case State::kStarting:
      return MakeError(ErrorReason::kStarting, "the server is starting; retry later");
    case State::kOpen:
      calls_.insert(call);
      return absl::OkStatus();
    case State::kClosed:
      break;
  }
  return MakeError(ErrorReason::kDraining, "the server is draining; retry on another server");
}

void ReactorRegistry::Remove(LiveCall* call) {
  MutexLock lock(&mutex_);
  calls_.erase(call);
  if (calls_.empty()) emptied_.NotifyAll();
}

void ReactorRegistry::EndAll(const absl::Status& status) {
  CancelIf(
      [&status](LiveCall& call) {
        call.CutShort(status);
        return true;
      },
      status);
}

int64_t ReactorRegistry::CancelClientWaitsStartedBefore(absl::Time time) {
  return CancelIf(
      [time](LiveCall& call) {
        if (call.client_wait_start() >= time) return false;
        call.Note("stalled", true);
        return true;
      },
      absl::CancelledError(
          "the client did not read or send a message in time (--stalled_write_timeout)"));
}

int64_t ReactorRegistry::CancelIf(absl::FunctionRef<bool(LiveCall&)> predicate,
                                  const absl::Status& status) {
  // Cancel may run gRPC callbacks on this thread, and those may call Remove: do it without the
  // lock.
  std::vector<CallReference> references;
  {
    MutexLock lock(&mutex_);
    for (LiveCall* call : calls_) {
      if (predicate(*call)) references.push_back(call->reference());
    }
  }
  const std::string message(status.message());
  for (const CallReference& reference : references) {
    reference.Cancel(static_cast<grpc_status_code>(status.code()), message.c_str());
  }
  return static_cast<int64_t>(references.size());
}

bool ReactorRegistry::WaitUntilEmpty(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (!calls_.empty()) {
    if (clock_->Now() >= deadline) return false;
    clock_->WaitUntil(deadline, &emptied_, &mutex_);
  }
  return true;
}

int64_t ReactorRegistry::live() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(calls_.size());
}

}  // namespace chorale
