// The few POSIX calls that durable files need, with errors that name the path.
#ifndef CHORALE_ENGINE_STORE_POSIX_FILE_H_
#define CHORALE_ENGINE_STORE_POSIX_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// ResourceExhausted when the disk or a quota is full, else Internal: "`path`: cannot `action`:
// why".
absl::Status FileError(int error, absl::string_view action, absl::string_view path);

// Owns a file descriptor. Not thread-safe.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor() { Reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void Reset();

 private:
  int fd_;
};

// Writes all bytes, however often write() has to be called.
absl::Status WriteAll(const FileDescriptor& file, absl::string_view bytes, const std::string& path);

// Reads a regular file of exactly `bytes` bytes. NotFound when there is none; DataLoss when its
// size differs (nothing is allocated then).
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t bytes);

// Flushes a folder's entries, so that names created, renamed or removed in it survive a crash.
absl::Status SyncFolder(const std::string& path);

// Creates a folder that only its owner may enter, and those above it, durably; no-op where it
// exists. FailedPrecondition when it cannot be, for example because a file is in the way.
absl::Status MakeFolder(const std::string& path);

// Locks the file `path`, created if need be, for this process until the descriptor is closed.
// FailedPrecondition when another holder has it.
absl::StatusOr<FileDescriptor> LockFile(const std::string& path);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_POSIX_FILE_H_
