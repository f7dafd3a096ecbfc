#include "server/memory/memory_watch.h"

#include <malloc.h>

#include <chrono>
#include <utility>

#include "base/monotonic_clock.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/process_statistics.h"

namespace chorale {
namespace {

constexpr std::chrono::milliseconds kPeriod(50);

// Giving memory back takes time that grows with what is free.
constexpr absl::Duration kTrimPeriod = absl::Seconds(1);
constexpr absl::Duration kSecond = absl::Seconds(1);
constexpr absl::Duration kMemoryLogPeriod = absl::Seconds(1);

}  // namespace

MemoryPressure::Advice MemoryPressure::Next(int64_t resident_bytes, const MemoryLimit& limit,
                                            absl::Time now) {
  Advice advice;
  const bool was_high = high_;
  high_ = limit.bytes > 0 && resident_bytes > limit.high();
  if (!high_) return advice;
  if (!was_high) high_since_ = now;
  advice.high = true;
  if (now - trimmed_ >= kTrimPeriod) {
    advice.trim = true;
    trimmed_ = now;
  }
  // The first step may do: connections that wait, and memory given back.
  advice.end_busiest = was_high;
  advice.lately = now - high_since_ < kLately;
  advice.give_up = now - high_since_ >= kPatience;
  return advice;
}

MemoryWatch::MemoryWatch(Handlers handlers)
    : handlers_(std::move(handlers)), thread_([this] { Run(); }) {}

MemoryWatch::~MemoryWatch() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void MemoryWatch::Run() {
  MemoryPressure pressure;
  absl::Time second = absl::InfinitePast();
  absl::Time logged = absl::InfinitePast();
  int64_t ended = 0;
  bool gave_up = false;
  while (Wait()) {
    const absl::Time now = MonotonicNow();
    const int64_t resident = ResidentBytes();
    const MemoryLimit limit = handlers_.limit();
    const MemoryPressure::Advice advice = pressure.Next(resident, limit, now);
    // Without a limit that is set others' connections do not wait: there is memory for them.
    handlers_.pause_accepting(advice.high && limit.set);
    if (advice.trim) malloc_trim(0);
    if (advice.end_busiest) ended += handlers_.end_busiest(advice.lately);
    if (advice.high && now - logged >= kMemoryLogPeriod) {
      LogEvent(spdlog::level::warn, "memory_high",
               {{"resident_bytes", resident},
                {"limit_bytes", limit.bytes},
                {"connections_ended", std::exchange(ended, 0)}});
      logged = now;
    }
    if (now - second >= kSecond) {
      handlers_.each_second();
      second = now;
    }
    if (!advice.give_up) continue;
    if (!limit.set) {
      handlers_.raise_limit(resident);
    } else if (!std::exchange(gave_up, true)) {
      handlers_.give_up();
    }
  }
}

bool MemoryWatch::Wait() {
  MutexLock lock(&mutex_);
  const auto until = std::chrono::steady_clock::now() + kPeriod;
  while (!stopping_ && std::chrono::steady_clock::now() < until) {
    changed_.WaitUntil(&mutex_, until);
  }
  return !stopping_;
}

}  // namespace chorale
