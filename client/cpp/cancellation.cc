#include "client/cpp/cancellation.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace chorale::client {

bool SleepUntil(absl::Time end, std::initializer_list<const Cancellation*> cancellations) {
  for (absl::Time now = absl::Now(); now < end; now = absl::Now()) {
    for (const Cancellation* cancellation : cancellations) {
      if (cancellation != nullptr && cancellation->cancelled()) return false;
    }
    absl::SleepFor(std::min(end - now, Cancellation::kCheckInterval));
  }
  return true;
}

}  // namespace chorale::client
