#include "base/normal_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"

namespace chorale {
namespace {

constexpr unsigned char kFirstBeyondAscii = 0x80;

struct Free {
  void operator()(utf8proc_uint8_t* text) const { std::free(text); }
};

// Unicode's property White_Space.
bool IsSpace(utf8proc_int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Characters that no reader sees. Not the joiners, which change the letters beside them.
bool IsInvisible(utf8proc_int32_t c) {
  return c == 0xAD || c == 0x061C || c == 0x200B || c == 0x200E || c == 0x200F ||
         (c >= 0x202A && c <= 0x202E) || c == 0x2060 || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < kFirstBeyondAscii; });
}

// Whether the text is ASCII and its own normal form, as nearly all are.
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

// Without what is invisible, and with one space for each run between words.
std::string TidySpaces(absl::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  std::string tidy;
  tidy.reserve(text.size());
  bool space = false;
  for (utf8proc_ssize_t at = 0; at < size;) {
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + at, size - at, &c);
    if (length <= 0) return std::string(text);  // cannot be: the text is valid
    if (IsSpace(c)) {
      space = true;
    } else if (!IsInvisible(c)) {
      if (space && !tidy.empty()) tidy += ' ';
      space = false;
      absl::StrAppend(&tidy, text.substr(at, length));
    }
    at += length;
  }
  return tidy;
}

// What utf8proc makes of a text; the text itself if it cannot.
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

std::string NormalText(absl::string_view text) {
  if (IsPlain(text)) return std::string(text);
  if (!IsValidUtf8(text)) return std::string(text);
  std::string tidy = TidySpaces(text);
  return IsAscii(tidy) ? tidy : Map(tidy, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
}

std::string PlainLetters(absl::string_view text) {
  const std::string folded = Map(text, UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE |
                                           UTF8PROC_STRIPMARK | UTF8PROC_CASEFOLD);
  // Letters that are not made of another one and a mark.
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
