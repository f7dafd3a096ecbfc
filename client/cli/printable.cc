#include "client/cli/printable.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"

namespace chorale::client {
namespace {

// A character at the start of a text, or a byte that is not part of a character.
struct Unit {
  size_t bytes = 1;
  bool shown = true;
};

Unit FirstUnit(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {1, (first >= 0x20 && first != 0x7F) || first == '\n' || first == '\t'};
  for (size_t bytes = 2; bytes <= 4 && bytes <= text.size(); ++bytes) {
    const absl::string_view character = text.substr(0, bytes);
    if (!IsValidUtf8(character)) continue;
    // U+061C, U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069 change the direction.
    const bool turns = character == "\xD8\x9C" || character == "\xE2\x80\x8E" ||
                       character == "\xE2\x80\x8F" ||
                       (character >= "\xE2\x80\xAA" && character <= "\xE2\x80\xAE") ||
                       (character >= "\xE2\x81\xA6" && character <= "\xE2\x81\xA9");
    return {bytes, !turns && !HasControlCharacter(character)};
  }
  return {1, false};
}

// Returns the number of bytes at the end that may be the start of a character.
size_t Incomplete(absl::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<uint8_t>(text[text.size() - back]);
    if (byte >= 0xC0) return back;
    if (byte < 0x80) return 0;
  }
  return 0;
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const Unit unit = FirstUnit(text);
    if (unit.shown) {
      printable.append(text.data(), unit.bytes);
    } else {
      for (const char byte : text.substr(0, unit.bytes)) {
        absl::StrAppendFormat(&printable, "\\x%02x", static_cast<uint8_t>(byte));
      }
    }
    text.remove_prefix(unit.bytes);
  }
  return printable;
}

bool PrintableBuffer::PassOn(size_t bytes) {
  const std::string text = Printable(absl::string_view(pending_).substr(0, bytes));
  pending_.erase(0, bytes);
  const auto count = static_cast<std::streamsize>(text.size());
  return out_->sputn(text.data(), count) == count;
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(0);
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

std::streamsize PrintableBuffer::xsputn(const char* text, std::streamsize count) {
  const absl::string_view added(text, static_cast<size_t>(count));
  const size_t line = added.rfind('\n');  // none in what is pending: that was passed on
  const size_t lines = line == absl::string_view::npos ? 0 : pending_.size() + line + 1;
  absl::StrAppend(&pending_, added);
  if (lines > 0 && !PassOn(lines)) return 0;
  if (pending_.size() < kLongLine) return count;
  return PassOn(pending_.size() - Incomplete(pending_)) ? count : 0;
}

int PrintableBuffer::sync() {
  const bool passed = pending_.empty() || PassOn(pending_.size());
  return passed && out_->pubsync() == 0 ? 0 : -1;
}

}  // namespace chorale::client
