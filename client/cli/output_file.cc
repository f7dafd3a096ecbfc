#include "client/cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace chorale::client {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPermissions = 07777;
constexpr mode_t kNewFile = 0666;

absl::Status CannotWrite(const std::string& path, int error) {
  const std::string why =
      error == 0 ? "" : absl::StrCat(": ", std::generic_category().message(error));
  return absl::InvalidArgumentError(absl::StrCat("--output: cannot write '", path, "'", why));
}

// Returns the end of a chain of symbolic links, whether it exists or not.
fs::path FollowLinks(fs::path path) {
  constexpr int kMostLinks = 40;
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, error); ++i) {
    const fs::path next = fs::read_symlink(path, error);
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

// Whether replacing the file would change more than its content.
bool MustStay(const std::string& path, const struct stat& info) {
  return !S_ISREG(info.st_mode) || info.st_nlink > 1 || info.st_uid != geteuid() ||
         getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

mode_t ModeOfNewFiles() {
  const mode_t mask = umask(0);
  umask(mask);
  return kNewFile & ~mask;
}

// Writes into the existing file; returns errno.
int WriteInto(const std::string& path, absl::FunctionRef<void(std::ostream&)> write) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) return errno == 0 ? EIO : errno;
  write(file);
  file.close();
  if (file) return 0;
  return errno == 0 ? EIO : errno;
}

// The file to write: the file itself, or the end of a chain of links.
struct Destination {
  std::string target;
  bool exists = false;
  struct stat info = {};
};

absl::Status FindDestination(const std::string& path, Destination* found) {
  // The names in links in /proc to pipes do not exist.
  const bool special = stat(path.c_str(), &found->info) == 0 && !S_ISREG(found->info.st_mode);
  found->target = special ? path : FollowLinks(path).string();
  std::error_code unknown;
  if (!special && fs::is_symlink(found->target, unknown)) return CannotWrite(path, ELOOP);
  found->exists = stat(found->target.c_str(), &found->info) == 0;
  const bool readonly = found->exists && access(found->target.c_str(), W_OK) != 0;
  return readonly ? CannotWrite(path, errno) : absl::OkStatus();
}

}  // namespace

absl::Status CheckOutputFile(const std::string& path) {
  Destination found;
  RETURN_IF_ERROR(FindDestination(path, &found));
  if (found.exists) {
    return S_ISDIR(found.info.st_mode) ? CannotWrite(path, EISDIR) : absl::OkStatus();
  }
  const fs::path folder = fs::path(found.target).parent_path();
  // A name that ends in a slash denotes a folder.
  if (fs::path(found.target).filename().empty()) return CannotWrite(path, EISDIR);
  const bool writable = access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0;
  return writable ? absl::OkStatus() : CannotWrite(path, errno);
}

absl::Status WriteOutputFile(const std::string& path,
                             absl::FunctionRef<void(std::ostream&)> write) {
  Destination found;
  RETURN_IF_ERROR(FindDestination(path, &found));
  const auto& [target, exists, info] = found;
  std::string partial = absl::StrCat(target, ".partial-XXXXXX");
  const int created = exists && MustStay(target, info) ? -1 : mkostemp(partial.data(), O_CLOEXEC);
  if (created < 0) {
    const int error = WriteInto(target, write);
    return error == 0 ? absl::OkStatus() : CannotWrite(path, error);
  }
  // The group may differ from the group of new files in this folder.
  const bool grouped = !exists || fchown(created, info.st_uid, info.st_gid) == 0;
  close(created);
  int error = 0;
  if (!grouped) {
    error = WriteInto(target, write);
  } else {
    error = WriteInto(partial, write);
    const mode_t mode = exists ? info.st_mode & kPermissions : ModeOfNewFiles();
    if (error == 0 && chmod(partial.c_str(), mode) != 0) error = errno;
    if (error == 0 && rename(partial.c_str(), target.c_str()) != 0) error = errno;
  }
  if (error != 0 || !grouped) unlink(partial.c_str());
  return error == 0 ? absl::OkStatus() : CannotWrite(path, error);
}

}  // namespace chorale::client
