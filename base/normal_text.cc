#include "base/normal_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"

namespace chorale {
namespace {

constexpr unsigned char kFirstBeyondAscii = 0x80;
// No text has more than 3.5 times the bytes of its NFC, according to the characters of Unicode 15.
constexpr size_t kMostShrinking = 4;
constexpr auto kCanonical = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
constexpr auto kComposed = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

struct Free {
  void operator()(utf8proc_uint8_t* text) const { std::free(text); }
};

// Unicode's property White_Space.
bool IsSpace(utf8proc_int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Characters that are not displayed, except joiners, which change the shape of adjacent letters.
bool IsInvisible(utf8proc_int32_t c) {
  return c == 0xAD || c == 0x061C || c == 0x200B || c == 0x200E || c == 0x200F ||
         (c >= 0x202A && c <= 0x202E) || c == 0x2060 || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < kFirstBeyondAscii; });
}

// Fast path: whether the text is ASCII and its own normal form.
bool IsPlain(absl::string_view text) {
  bool after_space = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= kFirstBeyondAscii || (c != ' ' && IsSpace(byte)) || (c == ' ' && after_space)) {
      return false;
    }
    after_space = c == ' ';
  }
  return text.empty() || !after_space;
}

// Removes invisible characters, and replaces each run of white space between words by one space.
// Returns nullopt if the result has more than `max_bytes`. REQUIRES: the text is valid UTF-8.
std::optional<std::string> TidySpaces(absl::string_view text, size_t max_bytes) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  std::string tidy;
  tidy.reserve(std::min(text.size(), max_bytes));
  bool space = false;
  for (utf8proc_ssize_t at = 0; at < size;) {
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + at, size - at, &c);
    if (length <= 0) return std::string(text);  // unreachable: the text is valid
    if (IsSpace(c)) {
      space = true;
    } else if (!IsInvisible(c)) {
      if (space && !tidy.empty()) tidy += ' ';
      space = false;
      absl::StrAppend(&tidy, text.substr(at, length));
      if (tidy.size() > max_bytes) return std::nullopt;
    }
    at += length;
  }
  return tidy;
}

int CombiningClass(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Decomposes a valid text and sorts the marks of each letter into Unicode's canonical order.
std::vector<utf8proc_int32_t> Decompose(absl::string_view text) {
  constexpr utf8proc_ssize_t kMostParts = 8;  // per character; at most 4 in Unicode
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  for (utf8proc_ssize_t at = 0; at < size;) {
    utf8proc_int32_t c = 0;
    at += std::max<utf8proc_ssize_t>(utf8proc_iterate(bytes + at, size - at, &c), 1);
    std::array<utf8proc_int32_t, kMostParts> parts = {};
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(c, parts.data(), kMostParts, kCanonical, nullptr);
    characters.insert(characters.end(), parts.begin(),
                      parts.begin() + std::clamp<utf8proc_ssize_t>(count, 0, kMostParts));
  }
  const auto is_mark = [](utf8proc_int32_t c) { return CombiningClass(c) != 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    const auto first = std::find_if(at, characters.end(), is_mark);
    at = std::find_if_not(first, characters.end(), is_mark);
    std::stable_sort(first, at, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
  }
  return characters;
}

// Converts a valid text to Unicode's NFC.
std::string Compose(absl::string_view text) {
  std::vector<utf8proc_int32_t> characters = Decompose(text);
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), kComposed);
  if (count < 0) return std::string(text);  // unreachable: the characters are valid
  characters.resize(static_cast<size_t>(count));
  std::string composed;
  composed.reserve(text.size());
  for (const utf8proc_int32_t c : characters) {
    std::array<utf8proc_uint8_t, 4> bytes = {};
    const utf8proc_ssize_t length = utf8proc_encode_char(c, bytes.data());
    composed.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
  }
  return composed;
}

// Applies utf8proc_map with `options`. Returns the text unchanged on an error.
std::string Map(absl::string_view text, int options) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                             static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, Free> owned(mapped);
  if (size < 0) return std::string(text);
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
}

}  // namespace

std::optional<std::string> NormalTextWithin(absl::string_view text, size_t max_bytes) {
  std::string form;
  if (IsPlain(text) || !IsValidUtf8(text)) {
    if (text.size() > max_bytes) return std::nullopt;
    form = std::string(text);
  } else {
    std::optional<std::string> tidy = TidySpaces(text, kMostShrinking * max_bytes);
    if (!tidy.has_value()) return std::nullopt;
    form = IsAscii(*tidy) ? *std::move(tidy) : Compose(*tidy);
  }
  if (form.size() > max_bytes) return std::nullopt;
  return form;
}

std::string NormalText(absl::string_view text) {
  constexpr size_t kNoLimit = std::numeric_limits<size_t>::max() / kMostShrinking;
  return *NormalTextWithin(text, kNoLimit);
}

std::string PlainLetters(absl::string_view text) {
  const std::string folded = Map(text, UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE |
                                           UTF8PROC_STRIPMARK | UTF8PROC_CASEFOLD);
  // Letters that do not decompose into a letter and a mark.
  return absl::StrReplaceAll(folded, {{"\u00E6", "ae"},
                                      {"\u0153", "oe"},
                                      {"\u00F8", "o"},
                                      {"\u0111", "d"},
                                      {"\u00F0", "d"},
                                      {"\u0142", "l"},
                                      {"\u00FE", "th"},
                                      {"\u0131", "i"}});
}

}  // namespace chorale
