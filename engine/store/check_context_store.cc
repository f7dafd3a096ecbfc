#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "engine/store/context_store.h"
#include "engine/store/context_table.h"
#include "engine/store/dataset_files.h"
#include "engine/store/posix_file.h"
#include "engine/store/store_paths.h"

namespace chorale {
namespace {

namespace fs = std::filesystem;

// Returns OK if nothing has this name. `follow`: whether to follow symbolic links.
absl::Status CheckKind(const std::string& path, mode_t kind, bool follow) {
  struct stat info;
  if ((follow ? stat(path.c_str(), &info) : lstat(path.c_str(), &info)) != 0) {
    return errno == ENOENT && !IdentityOf(path).has_value() ? absl::OkStatus()
                                                            : FileError(errno, "open", path);
  }
  if ((info.st_mode & S_IFMT) != kind) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, kind == S_IFDIR ? ": is not a folder" : ": is not a regular file"));
  }
  const int rights = kind == S_IFDIR ? R_OK | W_OK | X_OK : R_OK | W_OK;
  return access(path.c_str(), rights) == 0 ? absl::OkStatus() : FileError(errno, "write to", path);
}

// Checks that a file can be created in the folder: creates a file without a name, or, if the file
// system does not support that, a folder that is removed at once.
absl::Status TryToMakeFile(const std::string& folder) {
  const FileDescriptor nameless(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (nameless.valid()) return absl::OkStatus();
  if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL) {
    std::string made = absl::StrCat(folder, "/.check-XXXXXX");
    if (mkdtemp(made.data()) != nullptr) {
      rmdir(made.c_str());
      return absl::OkStatus();
    }
  }
  return FileError(errno, "create a file", folder);
}

// A full disk does not prevent opening an existing store (DiskRoom) if SQLite can create the
// database's log.
bool OpensOnFullDisk(const StorePaths& paths, const std::string& folder) {
  if (!IdentityOf(paths.database).has_value()) return false;
  if (IdentityOf(absl::StrCat(paths.database, "-wal")).has_value()) return true;
  struct statvfs disk;
  return statvfs(folder.c_str(), &disk) == 0 && (disk.f_files == 0 || disk.f_favail > 0);
}

// The folder, or the nearest existing parent in which it would be created. Returns an error for a
// dangling link.
absl::StatusOr<std::string> FolderToWriteTo(const std::string& folder) {
  fs::path path = folder;
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();  // "data/"
  while (!IdentityOf(path).has_value() && (errno == ENOENT || errno == ENOTDIR)) {
    const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (parent == path) break;
    path = parent;
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError(errno, "open", path.string());
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path.string(), ": is not a folder"));
  }
  return path.string();
}

}  // namespace

std::vector<absl::Status> CheckContextStore(const std::string& folder) {
  const absl::StatusOr<std::string> writable = FolderToWriteTo(folder);
  if (!writable.ok()) return {writable.status()};
  const StorePaths paths(folder);
  std::vector<absl::Status> found;
  const auto add = [&found](const absl::Status& status) {
    if (!status.ok()) found.push_back(status);
    return status.ok();
  };
  std::error_code error;
  const fs::path database = fs::absolute(paths.database, error);
  add(RefuseLinks(error ? paths.database : database.string()));
  const absl::Status made = TryToMakeFile(*writable);
  if (!absl::IsResourceExhausted(made) || !OpensOnFullDisk(paths, folder)) add(made);
  for (const std::string& path :
       {paths.lock, paths.reserve, absl::StrCat(paths.reserve, ".attempt")}) {
    add(CheckKind(path, S_IFREG, /*follow=*/false));
  }
  const bool database_is_file = add(CheckKind(paths.database, S_IFREG, /*follow=*/false));
  bool folders_are_folders = add(CheckKind(paths.lost, S_IFDIR, /*follow=*/true));
  const bool has_datasets = add(CheckKind(paths.datasets, S_IFDIR, /*follow=*/true));
  if (has_datasets) {
    folders_are_folders &=
        add(CheckKind(absl::StrCat(paths.datasets, "/incoming"), S_IFDIR, /*follow=*/true));
  }
  folders_are_folders &= has_datasets;
  if (!database_is_file || !folders_are_folders) return found;
  absl::StatusOr<std::set<std::string>> datasets = std::set<std::string>();
  if (fs::exists(paths.datasets, error)) {
    datasets = DatasetFiles(paths.datasets, paths.lost).List();
  }
  if (add(datasets.status())) {
    add(ContextTable::Check(paths.database, datasets->empty() ? ContextTable::IfNew::kCreate
                                                              : ContextTable::IfNew::kRefuse));
  }
  return found;
}

}  // namespace chorale
