#include "server/lifecycle/shutdown_signal.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// Waits for one of the signals; false if `deadline` passes first.
bool WaitForSignal(absl::Time deadline) {
  const sigset_t set = Signals();
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    const timespec wait = absl::ToTimespec(std::min(left, absl::Hours(1)));
    if (sigtimedwait(&set, nullptr, &wait) > 0) return true;
  }
}

[[noreturn]] void ForceExit(const char* why) {
  LogEvent(spdlog::level::err, "forced_exit", {{"reason", std::string(why)}});
  absl::SleepFor(absl::Milliseconds(100));  // lets the log thread write
  _exit(1);
}

}  // namespace

ShutdownSignal::ShutdownSignal(Handlers handlers) : handlers_(std::move(handlers)) {
  const sigset_t set = Signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { Run(); });
}

ShutdownSignal::~ShutdownSignal() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  // The thread consumes this signal with sigtimedwait, so it terminates nothing.
  pthread_kill(thread_.native_handle(), SIGTERM);  // NOLINT(bugprone-bad-signal-to-kill-thread)
  thread_.join();
}

void ShutdownSignal::Raise() { kill(getpid(), SIGTERM); }

void ShutdownSignal::Wait() {
  MutexLock lock(&mutex_);
  while (!has_received_) received_.Wait(&mutex_);
}

bool ShutdownSignal::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

void ShutdownSignal::Run() {
  WaitForSignal(absl::InfiniteFuture());
  if (stopping()) return;
  const absl::Time limit = absl::Now() + handlers_.limit;
  handlers_.first();
  {
    MutexLock lock(&mutex_);
    has_received_ = true;
  }
  received_.NotifyAll();
  if (!WaitForSignal(limit)) ForceExit("the drain took too long");
  if (stopping()) return;
  handlers_.second();
  if (!WaitForSignal(limit)) ForceExit("the drain took too long");
  if (stopping()) return;
  ForceExit("third signal");
}

}  // namespace chorale
