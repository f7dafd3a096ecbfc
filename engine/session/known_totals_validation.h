// Validates known totals.
#ifndef CHORALE_ENGINE_SESSION_KNOWN_TOTALS_VALIDATION_H_
#define CHORALE_ENGINE_SESSION_KNOWN_TOTALS_VALIDATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/api/request.h"

namespace chorale {

// Checks the totals of `groups` groups. Errors name known_totals.lower or known_totals.upper, or an
// entry of them.
absl::Status ValidateKnownTotals(const KnownTotals& totals, int64_t groups);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_KNOWN_TOTALS_VALIDATION_H_
