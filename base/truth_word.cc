#include "base/truth_word.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace chorale {
namespace {

constexpr absl::string_view kTrue[] = {"true", "t", "yes", "y", "1", "1.0"};
constexpr absl::string_view kFalse[] = {"false", "f", "no", "n", "0", "0.0"};

}  // namespace

std::optional<bool> TruthOfWord(absl::string_view text) {
  const auto is_text = [text](absl::string_view word) {
    return absl::EqualsIgnoreCase(word, text);
  };
  if (std::any_of(std::begin(kTrue), std::end(kTrue), is_text)) return true;
  if (std::any_of(std::begin(kFalse), std::end(kFalse), is_text)) return false;
  return std::nullopt;
}

}  // namespace chorale
