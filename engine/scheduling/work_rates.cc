#include "engine/scheduling/work_rates.h"

#include <cmath>

namespace chorale {

void WorkRates::Rate::Observe(double tick_flops, absl::Duration time) {
  const double tick_seconds = absl::ToDoubleSeconds(time);
  if (!(tick_flops > 0) || !(tick_seconds > 0)) return;
  const double kept = std::exp(-tick_seconds);  // 1/e after a second of work
  flops = kept * flops + tick_flops;
  seconds = kept * seconds + tick_seconds;
}

void WorkRates::Observe(const FlopsOfTick& flops, absl::Duration decode_time,
                        absl::Duration other_time) {
  decode_.Observe(flops.decode, decode_time);
  other_.Observe(flops.other, other_time);
}

absl::Duration WorkRates::TimeOf(const FlopsOfTick& flops) const {
  const double decode = decode_.per_second() > 0 ? decode_.per_second() : other_.per_second();
  const double other = other_.per_second() > 0 ? other_.per_second() : decode;
  if (decode == 0) return absl::ZeroDuration();
  return absl::Seconds(flops.decode / decode + flops.other / other);
}

}  // namespace chorale
