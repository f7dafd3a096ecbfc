#include "engine/session/known_totals_validation.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error_details.h"
#include "base/status_macros.h"

namespace chorale {
namespace {

// Checks one of the two ends of all totals. `no_end` is the infinity that stands for no end.
absl::Status ValidateEnds(absl::string_view field, const std::vector<double>& ends, int64_t groups,
                          double no_end) {
  if (static_cast<int64_t>(ends.size()) != groups) {
    return InvalidField(field, absl::StrCat("has ", ends.size(), " entries; must have ", groups,
                                            " (one for each group)"));
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    if (std::isfinite(ends[i]) || ends[i] == no_end) continue;
    return InvalidField(absl::StrCat(field, "[", i, "]"),
                        absl::StrCat("is ", ends[i], "; must be finite or ", no_end));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateKnownTotals(const KnownTotals& totals, int64_t groups) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  RETURN_IF_ERROR(ValidateEnds("known_totals.lower", totals.lower, groups, -kInfinity));
  RETURN_IF_ERROR(ValidateEnds("known_totals.upper", totals.upper, groups, kInfinity));
  for (int64_t g = 0; g < groups; ++g) {
    if (totals.lower[g] <= totals.upper[g]) continue;
    return InvalidField(absl::StrCat("known_totals.lower[", g, "]"),
                        absl::StrCat("is ", totals.lower[g], "; must be at most ", totals.upper[g],
                                     " (known_totals.upper[", g, "])"));
  }
  return absl::OkStatus();
}

}  // namespace chorale
