#include "server/memory/memory_watch.h"

#include <malloc.h>

#include <utility>

#include "server/telemetry/logging.h"
#include "server/telemetry/process_statistics.h"

namespace chorale {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(50);

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

MemoryWatch::MemoryWatch(const Clock* clock, Handlers handlers)
    : clock_(clock), handlers_(std::move(handlers)), task_(clock, kPeriod, [this] { Check(); }) {}

void MemoryWatch::Check() {
  const absl::Time now = clock_->Now();
  const int64_t resident = ResidentBytes();
  const MemoryLimit limit = handlers_.limit();
  const MemoryPressure::Advice advice = pressure_.Next(resident, limit, now);
  // Without a limit that is set from outside, new connections need not wait: there is memory for
  // them.
  handlers_.pause_accepting(advice.high && limit.set);
  if (advice.trim) malloc_trim(0);
  if (advice.end_busiest) ended_ += handlers_.end_busiest(advice.lately);
  if (advice.high && now - logged_ >= kMemoryLogPeriod) {
    LogEvent(spdlog::level::warn, "memory_high",
             {{"resident_bytes", resident},
              {"limit_bytes", limit.bytes},
              {"connections_ended", std::exchange(ended_, 0)}});
    logged_ = now;
  }
  if (now - second_ >= kSecond) {
    handlers_.each_second();
    second_ = now;
  }
  if (!advice.give_up) return;
  if (!limit.set) {
    handlers_.raise_limit(resident);
  } else if (!std::exchange(gave_up_, true)) {
    handlers_.give_up();
  }
}

}  // namespace chorale
