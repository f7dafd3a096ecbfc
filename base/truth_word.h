// Words for true and false.
#ifndef CHORALE_BASE_TRUTH_WORD_H_
#define CHORALE_BASE_TRUTH_WORD_H_

#include <cstddef>
#include <optional>

#include "absl/strings/string_view.h"

namespace chorale {

inline constexpr size_t kLongestTruthWord = 5;  // bytes

// The truth value of "true", "t", "yes", "y", "1" and "1.0", and of "false", "f", "no", "n", "0"
// and "0.0", in any case; nullopt for any other text.
std::optional<bool> TruthOfWord(absl::string_view text);

}  // namespace chorale

#endif  // CHORALE_BASE_TRUTH_WORD_H_
