#include "client/cli/sample_continuation.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cpp/shell_word.h"

namespace chorale::client {
namespace {

// Returns the last line of the file, without its end; empty if it is not complete.
std::string LastLine(const std::string& path) {
  constexpr std::streamoff kLongest = 1024;  // of a line of numbers
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  file.seekg(-std::min<std::streamoff>(file.tellg(), kLongest), std::ios::end);
  const std::string end{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!absl::EndsWith(end, "\n")) return "";
  const std::vector<absl::string_view> lines = absl::StrSplit(end, '\n');
  return std::string(lines[lines.size() - 2]);
}

}  // namespace

std::string CommandFor(const OtherPaths& other, const std::vector<std::string>& words) {
  constexpr std::array<absl::string_view, 3> kReplaced = {"--seed", "--first-path", "--paths"};
  std::string command;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (name == "--append") continue;
    if (std::find(kReplaced.begin(), kReplaced.end(), name) != kReplaced.end()) {
      if (name.size() == words[i].size()) ++i;  // the value is the next word
      continue;
    }
    absl::StrAppend(&command, ShellWord(words[i]), " ");
  }
  absl::StrAppend(&command, "--seed ", other.seed, " --first-path ", other.first_path, " --paths ",
                  other.paths, other.append ? " --append" : "");
  return command;
}

absl::Status CheckEndsBefore(int64_t first_path, const std::string& file) {
  if (!std::ifstream(file).is_open()) {
    return absl::InvalidArgumentError(absl::StrCat("--append: cannot read '", file,
                                                   "', which an earlier command leaves when it "
                                                   "ends early"));
  }
  const std::string line = LastLine(file);
  int64_t last = 0;
  if (absl::SimpleAtoi(line.substr(0, line.find(',')), &last) && last == first_path - 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--append: the last line of '", file, "' is '",
                                                 line, "'; it must belong to path ", first_path - 1,
                                                 ", the one before --first-path"));
}

}  // namespace chorale::client
