#include "server/lifecycle/shutdown_signal.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
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

// Waits for one of the signals, and returns it; 0 if `deadline` (monotonic) passes first.
int WaitForSignal(absl::Time deadline) {
  const sigset_t set = Signals();
  while (true) {
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) return 0;
    const timespec wait = absl::ToTimespec(std::min(left, absl::Hours(1)));
    if (const int signal = sigtimedwait(&set, nullptr, &wait); signal > 0) return signal;
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

void ShutdownSignal::Raise() { kill(getpid(), SIGINT); }

void ShutdownSignal::Wait() {
  MutexLock lock(&mutex_);
  while (!has_started_) started_.Wait(&mutex_);
}

bool ShutdownSignal::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

void ShutdownSignal::Run() {
  const int signal = WaitForSignal(absl::InfiniteFuture());
  if (stopping()) return;
  handlers_.first();
  if (signal == SIGTERM) {
    WaitForSignal(MonotonicNow() + handlers_.lame_duck);
    if (stopping()) return;
  }
  const absl::Time limit = MonotonicNow() + handlers_.limit;
  {
    MutexLock lock(&mutex_);
    has_started_ = true;
  }
  started_.NotifyAll();
  if (WaitForSignal(limit) == 0) ForceExit("the drain took too long");
  if (stopping()) return;
  handlers_.hurry();
  if (WaitForSignal(limit) == 0) ForceExit("the drain took too long");
  if (stopping()) return;
  ForceExit("one more signal");
}

}  // namespace chorale
