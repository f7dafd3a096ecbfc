// Checks that the validations of several requests share.
#ifndef CHORALE_ENGINE_SESSION_REQUEST_CHECKS_H_
#define CHORALE_ENGINE_SESSION_REQUEST_CHECKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/data/limits.h"

namespace chorale {

// Returns LimitExceeded(field, what) unless the condition holds.
absl::Status LimitUnless(bool condition, absl::string_view field, absl::string_view what);

// Checks that `value` is in [low, high].
absl::Status InRange(absl::string_view field, int64_t value, int64_t low, int64_t high);

// Checks that the product of three counts is at most `limit`. Each factor was checked against its
// own limit.
absl::Status AtMost(absl::string_view field, absl::string_view what, int64_t a, int64_t b,
                    int64_t c, int64_t limit);

// Checks the number of quantiles, and that each is strictly between 0 and 1.
absl::Status ValidateQuantiles(const std::vector<double>& quantiles, const Limits& limits);

// Checks that `rows` are distinct query rows.
absl::Status ValidateRows(absl::string_view field, const std::vector<int32_t>& rows,
                          int64_t query_rows);

// A part of a response: its size in numbers, and the field of the request that requests them.
struct ResponsePart {
  absl::string_view field;
  int64_t numbers;
};

// Checks that the parts of the response fit into one message. The error names the first part that
// does not fit together with the parts before it. Unconditional parts come before optional parts.
// No part has more than a few times max_values numbers, so the sum cannot overflow.
absl::Status ValidateResponse(absl::Span<const ResponsePart> parts, const Limits& limits);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_REQUEST_CHECKS_H_
