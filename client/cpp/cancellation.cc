#include "client/cpp/cancellation.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "base/clock.h"

namespace chorale::client {

bool SleepUntil(absl::Time end, std::initializer_list<const Cancellation*> cancellations) {
  const Clock& clock = *Clock::Real();
  for (absl::Time now = clock.Now(); now < end; now = clock.Now()) {
    for (const Cancellation* cancellation : cancellations) {
      if (cancellation != nullptr && cancellation->cancelled()) return false;
    }
    absl::SleepFor(std::min(end - now, Cancellation::kCheckInterval));
  }
  return true;
}

}  // namespace chorale::client
