#include "server/config/file_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_descriptor.h"

namespace chorale {
namespace {

absl::Status Unreadable(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", why));
}

std::string ErrorText(int error) { return std::generic_category().message(error); }

}  // namespace

absl::StatusOr<std::string> ReadFileText(const std::string& path) {
  constexpr size_t kMaxBytes = 16 << 20;
  // To open a pipe waits for its other end.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return Unreadable(path, ErrorText(errno));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return Unreadable(path, ErrorText(errno));
  if (!S_ISREG(info.st_mode)) return Unreadable(path, "not a regular file");
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t got = read(file.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreadable(path, ErrorText(errno));
    if (got == 0) break;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": exceeds the limit of ", kMaxBytes, " bytes"));
    }
  }
  // Editors on Windows write it, and nobody sees it.
  constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (absl::StartsWith(text, kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

absl::Status CheckEmptied(const std::string& path, absl::string_view text, int64_t entries,
                          int64_t before) {
  constexpr absl::string_view kMeant = "# intentionally empty";
  if (entries > 0 || before == 0) return absl::OkStatus();
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StripAsciiWhitespace(line) == kMeant) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": has no entries, but had ", before,
                                                 "; if this is intended, add the line \"", kMeant,
                                                 "\""));
}

}  // namespace chorale
