#include "engine/store/posix_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace chorale {
namespace {

std::string Describe(int error, absl::string_view action, absl::string_view path) {
  return absl::StrCat(path, ": cannot ", action, ": ",
                      std::error_code(error, std::generic_category()).message());
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

absl::Status NoRegularFile(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, ": is not a regular file"));
}

enum class WithoutLocks { kFail, kProceed };  // if the file system does not support such a lock

absl::Status Lock(const FileDescriptor& file, const std::string& path, WithoutLocks without) {
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(absl::StrCat(path, ": in use by another process"));
    }
    if (without == WithoutLocks::kProceed) return absl::OkStatus();
    return absl::FailedPreconditionError(Describe(errno, "lock", path));
  }
  return absl::OkStatus();
}

// The parent folder of `path`. REQUIRES: no trailing slash.
std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::Status FileError(int error, absl::string_view action, absl::string_view path) {
  const std::string message = Describe(error, action, path);
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

absl::Status WriteAll(const FileDescriptor& file, absl::string_view bytes,
                      const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return FileError(written < 0 ? errno : ENOSPC, "write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> OpenToRead(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) {
    if (errno == ENOENT) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    // A symbolic link, a socket, or a device without a driver.
    if (errno == ELOOP || errno == ENXIO || errno == ENODEV) return NoRegularFile(path);
    return FileError(errno, "open", path);
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0) return FileError(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) return NoRegularFile(path);
  return file;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t bytes) {
  ASSIGN_OR_RETURN(FileDescriptor opened, OpenToRead(path));
  const FileDescriptor& file = opened;
  struct stat info;
  if (fstat(file.get(), &info) != 0) return FileError(errno, "stat", path);
  if (info.st_size != bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": has ", info.st_size, " bytes, but ", bytes, " were written"));
  }
  std::string content(static_cast<size_t>(bytes), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, "read", path);
    if (got == 0) return absl::DataLossError(absl::StrCat(path, ": shrank while it was read"));
    done += static_cast<size_t>(got);
  }
  return content;
}

absl::Status SyncFolder(const std::string& path) {
  const FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return FileError(errno, "open", path);
  if (fsync(folder.get()) != 0) return FileError(errno, "fsync", path);
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& given) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.empty()) return absl::FailedPreconditionError("the folder's name is empty");
  if (IsFolder(path)) return absl::OkStatus();
  if (mkdir(path.c_str(), 0700) != 0) {
    if (errno == ENOENT) {
      RETURN_IF_ERROR(MakeFolder(ParentOf(path)));
      if (mkdir(path.c_str(), 0700) == 0) return SyncFolder(ParentOf(path));
    }
    if (errno == ENOSPC || errno == EDQUOT) return FileError(errno, "create the folder", path);
    return absl::FailedPreconditionError(Describe(errno, "create the folder", path));
  }
  return SyncFolder(ParentOf(path));
}

absl::StatusOr<FileDescriptor> LockFile(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) {
    return absl::FailedPreconditionError(Describe(errno, "open", path));
  }
  RETURN_IF_ERROR(Lock(file, path, WithoutLocks::kFail));
  return file;
}

absl::StatusOr<FileDescriptor> LockFolder(const std::string& path) {
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return absl::FailedPreconditionError(Describe(errno, "open", path));
  // Network file systems lock only files that are open for writing, and a folder cannot be opened
  // for writing.
  RETURN_IF_ERROR(Lock(folder, path, WithoutLocks::kProceed));
  return folder;
}

absl::Status RefuseLinks(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    struct stat info;
    if (lstat(part.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
      return absl::FailedPreconditionError(
          part == path
              ? absl::StrCat(path, ": is a symbolic link")
              : absl::StrCat(path, ": cannot be opened, because ", part, " is a symbolic link"));
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

std::optional<FileIdentity> IdentityOf(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino};
}

}  // namespace chorale
