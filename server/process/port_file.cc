#include "server/process/port_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace chorale {

absl::Status PortFile::Prepare(int port) const {
  if (path_.empty()) return absl::OkStatus();
  const std::string temporary = TemporaryPath();
  for (const std::string& earlier : {path_, temporary}) {
    if (unlink(earlier.c_str()) != 0 && errno != ENOENT) return Error();
  }
  const FileDescriptor file(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return Error();
  const std::string text = absl::StrCat(port, "\n");
  const auto size = static_cast<ssize_t>(text.size());
  return write(file.get(), text.data(), text.size()) == size ? absl::OkStatus() : Error();
}

absl::Status PortFile::Publish() const {
  if (path_.empty()) return absl::OkStatus();
  return std::rename(TemporaryPath().c_str(), path_.c_str()) == 0 ? absl::OkStatus() : Error();
}

absl::Status PortFile::Error() const {
  return absl::UnavailableError(absl::StrCat("cannot write the port file ", path_, ": ",
                                             std::generic_category().message(errno)));
}

}  // namespace chorale
