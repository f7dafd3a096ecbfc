#include "server/security/file_text.h"

#include <fstream>

#include "absl/strings/str_cat.h"

namespace chorale {

absl::StatusOr<std::string> ReadFileText(const std::string& path) {
  constexpr size_t kMaxBytes = 16 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char buffer[4096];
  do {
    file.read(buffer, sizeof(buffer));
    text.append(buffer, static_cast<size_t>(file.gcount()));
  } while (file && text.size() <= kMaxBytes);
  // A folder opens, but cannot be read.
  if (!file.is_open() || file.bad()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is larger than ", kMaxBytes, " bytes, the limit"));
  }
  return text;
}

}  // namespace chorale
