#include "base/number_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace chorale {
namespace {

constexpr absl::string_view kMinus = "\xE2\x88\x92";  // U+2212
// The largest integer below which a double holds all of them.
constexpr double kExactIntegers = 9007199254740992.0;

// Texts before or after a number: comparisons, signs, currencies, percent signs, parentheses.
constexpr absl::string_view kDecorations[] = {
    "<",      ">",      "=",      "~",      "*",      "(",      ")",      "+",
    "-",      "%",      "$",      "\u00A3", "\u00A5", "\u20AC", "\u20B9", "\u20BD",
    "\u2264", "\u2265", "\u2248", "\u2030", kMinus,   "\u2013", "USD",    "EUR",
    "GBP",    "CHF",    "JPY",    "Rs.",    "Rs",     "kr",     " "};

// Units after a number, in lower case. The single letters are those with which codes rarely end.
constexpr absl::string_view kUnits =
    "kg mg g t lb lbs oz km cm mm nm m mi miles ft yd in inch inches um ug "
    "m2 m3 km2 cm2 sqm sqft ha acres l ml cl gal s ms ns sec secs min mins "
    "h hr hrs hour hours d day days week weeks month months year years yr yrs "
    "km/h kmh kph mph m/s rpm hz khz mhz ghz w kw mw gw kwh mwh v mv kv ma "
    "j kj mj cal kcal pa hpa kpa mpa bar psi db kb mb gb tb kib mib gib bytes "
    "ppm ppb pct percent k pcs kg/m3 mg/l mg/dl "
    "m\u00B2 m\u00B3 km\u00B2 cm\u00B2 kg/m\u00B3 \u00B5m \u00B5g \u00B5g/m3 \u00B5g/m\u00B3 "
    "\u00B0 \u00B0"
    "c \u00B0"
    "f";

// Returns the number before a unit, with or without a space; the whole text if it has no unit.
absl::string_view WithoutUnit(absl::string_view text) {
  constexpr size_t kLongest = 64;  // a longer text does not look like a number
  if (text.size() > kLongest) return text;
  const std::string lower = absl::AsciiStrToLower(text);
  for (const absl::string_view unit : absl::StrSplit(kUnits, ' ')) {
    if (!absl::EndsWith(lower, unit)) continue;
    absl::string_view number = text.substr(0, text.size() - unit.size());
    absl::ConsumeSuffix(&number, " ");
    if (!number.empty() && absl::ascii_isdigit(static_cast<unsigned char>(number.back()))) {
      return number;
    }
  }
  return text;
}

void StripDecorations(absl::string_view* text) {
  bool stripped = true;
  while (stripped) {
    stripped = false;
    for (const absl::string_view decoration : kDecorations) {
      stripped |= absl::ConsumePrefix(text, decoration) || absl::ConsumeSuffix(text, decoration);
    }
  }
}

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// Digits between separators: "1,234.5" has "1", "234" and "5", and the separators ",.".
struct DigitGroups {
  std::vector<size_t> sizes;
  std::string signs;
};

// nullopt if there are other characters, adjacent separators, or a separator at either end.
std::optional<DigitGroups> SplitDigits(absl::string_view text, absl::string_view signs) {
  DigitGroups groups{.sizes = {0}, .signs = ""};
  for (const char c : text) {
    if (IsDigit(c)) {
      ++groups.sizes.back();
    } else if (absl::StrContains(signs, absl::string_view(&c, 1)) && groups.sizes.back() > 0) {
      groups.sizes.push_back(0);
      groups.signs += c;
    } else {
      return std::nullopt;
    }
  }
  if (groups.sizes.back() == 0) return std::nullopt;
  return groups;
}

// Whether the text consists of digits with thousands separators and a decimal separator.
bool IsGroupedNumber(absl::string_view text) {
  const std::optional<DigitGroups> groups = SplitDigits(text, " ,.'_");
  if (!groups.has_value()) return false;
  const std::string& signs = groups->signs;
  for (size_t i = 0; i < signs.size(); ++i) {
    const bool last = i + 1 == signs.size();
    const bool may_be_decimal =
        last && (signs[i] == ',' || signs[i] == '.') && (i == 0 || signs[i] != signs[i - 1]);
    if (may_be_decimal) continue;
    const bool like_first = signs[i] == signs[0];
    // In India, groups before the last have two digits.
    const bool pair = !last && signs[i] == ',' && groups->sizes[i + 1] == 2;
    if (!like_first || (groups->sizes[i + 1] != 3 && !pair)) return false;
  }
  return true;
}

// Returns the digits of an integer without its sign; empty for other texts.
absl::string_view IntegerDigits(absl::string_view number) {
  if (!absl::ConsumePrefix(&number, kMinus) && !absl::ConsumePrefix(&number, "-")) {
    absl::ConsumePrefix(&number, "+");
  }
  const bool digits = !number.empty() && std::all_of(number.begin(), number.end(), IsDigit);
  return digits ? number : absl::string_view();
}

}  // namespace

std::optional<double> ParseNumber(absl::string_view text) {
  std::string with_minus;
  if (absl::ConsumePrefix(&text, kMinus)) {
    if (absl::StartsWith(text, "-")) return std::nullopt;
    with_minus = absl::StrCat("-", text);
    text = with_minus;
  } else if (absl::ConsumePrefix(&text, "+") && absl::StartsWith(text, "-")) {
    return std::nullopt;
  }
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ptr != end || text.empty()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    // Too large or too small. A number that is too small is valid: strtod rounds it.
    value = std::strtod(std::string(text).c_str(), nullptr);
  } else if (result.ec != std::errc()) {
    return std::nullopt;
  }
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

std::string FormatNumber(double number) {
  char text[32];
  // Adding zero turns a negative zero into zero.
  const std::to_chars_result end = std::to_chars(std::begin(text), std::end(text), number + 0.0);
  return {std::begin(text), end.ptr};
}

bool IsPlainNumber(absl::string_view text) {
  return ParseNumber(text).has_value() && !HasLeadingZero(text) && !IsRoundedInteger(text);
}

bool LooksLikeNumber(absl::string_view text) {
  if (ParseNumber(text).has_value()) return false;
  StripDecorations(&text);
  text = WithoutUnit(text);
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == "inf" || lower == "infinity" || text == "\u221E") return true;
  // Other spaces, which normalised texts do not contain, and an apostrophe.
  const std::string plain = absl::StrReplaceAll(
      text, {{"\u00A0", " "}, {"\u2009", " "}, {"\u202F", " "}, {"\u2019", "'"}});
  return IsGroupedNumber(plain) || ParseNumber(plain).has_value();
}

bool HasLeadingZero(absl::string_view number) {
  const absl::string_view digits = IntegerDigits(number);
  return digits.size() > 1 && digits.front() == '0';
}

bool IsRoundedInteger(absl::string_view number) {
  absl::string_view digits = IntegerDigits(number);
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  const std::optional<double> value = ParseNumber(digits);
  if (!value.has_value() || *value < kExactIntegers) return false;
  return absl::StrFormat("%.0f", *value) != digits;
}

}  // namespace chorale
