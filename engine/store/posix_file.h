// The few POSIX calls that durable files need, with errors that name the path.
#ifndef CHORALE_ENGINE_STORE_POSIX_FILE_H_
#define CHORALE_ENGINE_STORE_POSIX_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace chorale {

// ResourceExhausted when the disk or a quota is full, else Internal: "`path`: cannot `action`:
// why".
absl::Status FileError(int error, absl::string_view action, absl::string_view path);

// Writes all bytes, however often write() has to be called.
absl::Status WriteAll(const FileDescriptor& file, absl::string_view bytes, const std::string& path);

// Opens a regular file to read it. NotFound when there is none; DataLoss for anything else of that
// name, such as a link or a FIFO, which is not waited for.
absl::StatusOr<FileDescriptor> OpenToRead(const std::string& path);

// Reads a regular file of exactly `bytes` bytes. NotFound when there is none; DataLoss when it is
// something else, or its size differs (nothing is allocated then).
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t bytes);

// Flushes a folder's entries, so that names created, renamed or removed in it survive a crash.
absl::Status SyncFolder(const std::string& path);

// Creates a folder that only its owner may enter, and those above it, durably; no-op where it
// exists. FailedPrecondition when it cannot be, for example because a file is in the way.
absl::Status MakeFolder(const std::string& path);

// Locks the file `path`, created if need be, for this process until the descriptor is closed.
// FailedPrecondition when another holder has it.
absl::StatusOr<FileDescriptor> LockFile(const std::string& path);

// The same for a folder that exists, where its file system can.
absl::StatusOr<FileDescriptor> LockFolder(const std::string& path);

// FailedPrecondition, naming it, if any part of the path is a link.
absl::Status RefuseLinks(const std::string& path);

// Tells a file or folder from another one that has taken its name.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Nothing when there is nothing of that name.
std::optional<FileIdentity> IdentityOf(const std::string& path);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_POSIX_FILE_H_
