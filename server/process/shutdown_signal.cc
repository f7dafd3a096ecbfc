#include "server/process/shutdown_signal.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

sigset_t ShutdownSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

int OpenSignals() {
  const sigset_t set = ShutdownSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

[[noreturn]] void ForceExit(const char* why) {
  LogEvent(spdlog::level::err, "forced_exit", {{"reason", std::string(why)}});
  absl::SleepFor(absl::Milliseconds(100));  // lets the log thread write
  _exit(1);
}

}  // namespace

ShutdownSignal::ShutdownSignal(Handlers handlers)
    : handlers_(std::move(handlers)),
      signals_(OpenSignals()),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!signals_.valid() || !wake_.valid()) ForceExit("no file descriptor is available for signals");
  thread_ = std::thread([this] { Run(); });
}

ShutdownSignal::~ShutdownSignal() {
  stopping_ = true;
  Wake();
  thread_.join();
}

void ShutdownSignal::Raise() {
  raised_ = true;
  Wake();
}

void ShutdownSignal::Wake() const {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void ShutdownSignal::Wait() {
  MutexLock lock(&mutex_);
  while (!has_started_) started_.Wait(&mutex_);
}

ShutdownSignal::Event ShutdownSignal::Next(absl::Time deadline) {
  while (true) {
    if (stopping_) return Event::kStop;
    if (raised_.exchange(false)) return Event::kRaised;
    signalfd_siginfo signal = {};
    if (read(signals_.get(), &signal, sizeof(signal)) > 0) {
      if (signal.ssi_signo == SIGTERM) return Event::kTerminate;
      const absl::Time now = Clock::Real()->Now();
      if (now - std::exchange(interrupted_, now) < kOnePress) continue;
      ++interrupts_;
      return Event::kInterrupt;
    }
    const absl::Duration left = deadline - Clock::Real()->Now();
    if (left <= absl::ZeroDuration()) return Event::kTimeout;
    pollfd waits[] = {{signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    const absl::Duration wait = std::min(left, absl::Hours(1)) + absl::Milliseconds(1);
    poll(waits, 2, static_cast<int>(absl::ToInt64Milliseconds(wait)));
    uint64_t count = 0;
    (void)!read(wake_.get(), &count, sizeof(count));
  }
}

void ShutdownSignal::NoteRepeated() {
  if (!std::exchange(noted_repeated_, true)) handlers_.repeated();
}

bool ShutdownSignal::BeLameDuck() {
  const absl::Time end = Clock::Real()->Now() + handlers_.lame_duck;
  while (true) {
    switch (Next(end)) {
      case Event::kTerminate:
        NoteRepeated();
        break;
      case Event::kInterrupt:
      case Event::kRaised:
      case Event::kTimeout:
        return true;
      case Event::kStop:
        return false;
    }
  }
}

void ShutdownSignal::StartShutdown() {
  MutexLock lock(&mutex_);
  has_started_ = true;
  started_.NotifyAll();
}

void ShutdownSignal::WatchShutdown() {
  const absl::Time limit = Clock::Real()->Now() + handlers_.limit;
  std::thread hurrying;
  while (true) {
    switch (Next(limit)) {
      case Event::kTerminate:
        NoteRepeated();
        break;
      case Event::kInterrupt:
        if (interrupts_ == 2) hurrying = std::thread(handlers_.hurry);
        if (interrupts_ > 2) ForceExit("third SIGINT");
        break;
      case Event::kRaised:
        break;
      case Event::kTimeout:
        ForceExit("the drain exceeded its time limit");
      case Event::kStop:
        if (hurrying.joinable()) hurrying.join();
        return;
    }
  }
}

void ShutdownSignal::Run() {
  const Event event = Next(absl::InfiniteFuture());
  if (event == Event::kStop) return;
  const bool duck = event == Event::kTerminate;
  handlers_.first(duck ? handlers_.lame_duck : absl::ZeroDuration());
  if (duck && !BeLameDuck()) return;
  StartShutdown();
  WatchShutdown();
}

}  // namespace chorale
