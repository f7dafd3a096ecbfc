#include "engine/session/request_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"

namespace chorale {

absl::Status LimitUnless(bool condition, absl::string_view field, absl::string_view what) {
  return condition ? absl::OkStatus() : LimitExceeded(field, what);
}

absl::Status InRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  const std::string what = absl::StrCat("is ", value, "; the limit is ", low, " to ", high);
  if (value < low) return InvalidField(field, what);
  return LimitUnless(value <= high, field, what);
}

// The divisions prevent an overflow of the product for any values of the limits.
absl::Status AtMost(absl::string_view field, absl::string_view what, int64_t a, int64_t b,
                    int64_t c, int64_t limit) {
  const bool fits = a == 0 || b == 0 || c == 0 || (a <= limit / b && a * b <= limit / c);
  return LimitUnless(fits, field,
                     absl::StrCat("requests ", a, " x ", b, c == 1 ? "" : absl::StrCat(" x ", c),
                                  " ", what, "; the limit is ", limit, ": request less per call"));
}

absl::Status ValidateQuantiles(const std::vector<double>& quantiles, const Limits& limits) {
  const auto count = static_cast<int64_t>(quantiles.size());
  if (count > limits.max_quantiles) {
    return LimitExceeded(
        "quantiles", absl::StrCat("has ", count, " entries; the limit is ", limits.max_quantiles));
  }
  for (int64_t i = 0; i < count; ++i) {
    const double q = quantiles[i];
    if (!(q > 0 && q < 1)) {
      return InvalidField(absl::StrCat("quantiles[", i, "]"),
                          absl::StrCat("is ", q, "; must be more than 0 and less than 1"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateRows(absl::string_view field, const std::vector<int32_t>& rows,
                          int64_t query_rows) {
  std::vector<bool> seen(query_rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string entry = absl::StrCat(field, "[", i, "]");
    if (rows[i] < 0 || rows[i] >= query_rows) {
      return InvalidField(entry, absl::StrCat("is ", rows[i], "; the limit is 0 to ",
                                              query_rows - 1, " (the index of a query row)"));
    }
    if (seen[rows[i]]) return InvalidField(entry, absl::StrCat("repeats row ", rows[i]));
    seen[rows[i]] = true;
  }
  return absl::OkStatus();
}

absl::Status ValidateResponse(absl::Span<const ResponsePart> parts, const Limits& limits) {
  int64_t needed = 0;
  absl::string_view field;
  for (const ResponsePart& part : parts) {
    needed += part.numbers * static_cast<int64_t>(sizeof(double));
    if (field.empty() && needed > limits.max_response_bytes) field = part.field;
  }
  return LimitUnless(field.empty(), field,
                     absl::StrCat("makes a response of ", needed, " bytes; the limit is ",
                                  limits.max_response_bytes,
                                  ": request fewer rows, or less of each row, per call"));
}

}  // namespace chorale
