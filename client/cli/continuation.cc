#include "client/cli/continuation.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/growing_output.h"
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

std::string ContinuingCommand(const std::vector<std::string>& words,
                              const std::vector<ReplacedOption>& replaced, bool append) {
  std::string command;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (name == "--append") continue;
    if (std::any_of(replaced.begin(), replaced.end(),
                    [&](const ReplacedOption& option) { return option.name == name; })) {
      if (name.size() == words[i].size()) ++i;  // the value is the next word
      continue;
    }
    absl::StrAppend(&command, command.empty() ? "" : " ", ShellWord(words[i]));
  }
  for (const auto& [name, value] : replaced) absl::StrAppend(&command, " ", name, " ", value);
  return command + (append ? " --append" : "");
}

absl::Status CheckAppend(const Environment& environment, Format format, int64_t number,
                         const std::string& owner) {
  if (format != Format::kCsv) return absl::InvalidArgumentError("--append: requires CSV");
  const std::string& output = environment.options.output;
  return HasPartialFile(output) ? CheckLastLine(PartialFile(output), number, owner)
                                : absl::OkStatus();
}

absl::Status CheckLastLine(const std::string& file, int64_t number, const std::string& owner) {
  if (!std::ifstream(file).is_open()) {
    return absl::InvalidArgumentError(absl::StrCat("--append: cannot read '", file,
                                                   "', which an earlier command leaves when it "
                                                   "ends early"));
  }
  const std::string line = LastLine(file);
  int64_t last = 0;
  if (absl::SimpleAtoi(line.substr(0, line.find(',')), &last) && last == number) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--append: the last line of '", file, "' is '",
                                                 line, "'; it must belong to ", owner));
}

void NotePartialResults(const PartialResults& results, Format format,
                        const Environment& environment) {
  const std::string count = absl::StrCat(results.count, " of ", results.total, " ", results.unit);
  if (!results.place.ok() || results.place->empty()) {
    environment.Note(absl::StrCat(count, " are complete; ",
                                  results.place.ok() ? "they cannot be written to a partial file"
                                                     : results.place.status().message()));
    return;
  }
  const std::string written = absl::StrCat(count, " were written to ", *results.place);
  if (results.count == results.total || results.replaced.empty()) {
    environment.Note(written);
    return;
  }
  const bool csv = format == Format::kCsv;
  const char* const use = !csv ? ""
                          : HasPartialFile(environment.options.output)
                              ? ", and completes the file"
                              : ", to append to this output";
  environment.Note(absl::StrCat(written, "; this command ", results.verb, " the others", use, ":"));
  environment.Note(ContinuingCommand(environment.words, results.replaced, csv));
}

}  // namespace chorale::client
