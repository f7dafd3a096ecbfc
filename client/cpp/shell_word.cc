#include "client/cpp/shell_word.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cpp/csv.h"

namespace chorale::client {

std::string ShellWord(absl::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::StrContains(absl::StartsWith(text, "--") ? "_./:+@%-=" : "_./:+@%-",
                             absl::string_view(&c, 1));
  });
  if (plain && !text.empty()) return std::string(text);
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", R"('\'')"}}), "'");
}

std::string AsOptionValue(absl::string_view text) {
  std::string cell = CsvLine({std::string(text)});
  cell.pop_back();  // the line feed
  return ShellWord(cell);
}

}  // namespace chorale::client
