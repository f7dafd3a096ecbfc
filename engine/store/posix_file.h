// POSIX calls for durable files, with errors that contain the path.
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

// Returns ResourceExhausted if the disk or a quota is full, else Internal, with the message
// "`path`: cannot `action`: reason".
absl::Status FileError(int error, absl::string_view action, absl::string_view path);

// Writes all bytes, with as many calls of write() as necessary.
absl::Status WriteAll(const FileDescriptor& file, absl::string_view bytes, const std::string& path);

// Opens a regular file to read it. Returns NotFound if it does not exist, and DataLoss for another
// kind of file, such as a link or a FIFO. Does not block on a FIFO.
absl::StatusOr<FileDescriptor> OpenToRead(const std::string& path);

// Reads a regular file of exactly `bytes` bytes. Returns NotFound if it does not exist, and
// DataLoss if it is not a regular file or has another size; memory is allocated only if the size
// matches.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t bytes);

// Flushes a folder's entries, so that names created, renamed or removed in it survive a crash.
absl::Status SyncFolder(const std::string& path);

// Durably creates a folder that only its owner may enter, and its parents; no-op if it exists.
// Returns ResourceExhausted if the disk is full, and FailedPrecondition for any other reason, such
// as a file of the same name.
absl::Status MakeFolder(const std::string& path);

// Locks the file `path` for this process until the descriptor is closed. Creates the file if
// necessary. Returns FailedPrecondition if another process holds the lock.
absl::StatusOr<FileDescriptor> LockFile(const std::string& path);

// Like LockFile, for an existing folder. Does nothing if its file system does not support the lock.
absl::StatusOr<FileDescriptor> LockFolder(const std::string& path);

// Returns FailedPrecondition, with the link, if any part of the path is a symbolic link.
absl::Status RefuseLinks(const std::string& path);

// Distinguishes a file or folder from another one that replaced it under its name.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Returns nullopt if nothing has this name.
std::optional<FileIdentity> IdentityOf(const std::string& path);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_POSIX_FILE_H_
