#include "engine/store/dataset_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/posix_file.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kSuffix = ".dataset";
constexpr size_t kShardDigits = 2;
constexpr size_t kKeyDigits = 64;

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsDatasetName(absl::string_view name) {
  return absl::ConsumeSuffix(&name, kSuffix) && name.size() == kKeyDigits && IsLowerHex(name);
}

// The names in a folder.
absl::StatusOr<std::set<std::string>> ListFolder(const std::string& path) {
  std::set<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  while (!error && entry != fs::directory_iterator()) {
    names.insert(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) return FileError(error.value(), "list", path);
  return names;
}

// Removes a temporary file unless SetRenamed was called.
class IncomingFile {
 public:
  explicit IncomingFile(std::string path) : path_(std::move(path)) {}
  ~IncomingFile() {
    if (!renamed_) unlink(path_.c_str());
  }
  IncomingFile(const IncomingFile&) = delete;
  IncomingFile& operator=(const IncomingFile&) = delete;

  const std::string& path() const { return path_; }
  void SetRenamed() { renamed_ = true; }

 private:
  const std::string path_;
  bool renamed_ = false;
};

}  // namespace

std::string DatasetKey(absl::string_view tenant, absl::string_view digest) {
  return ContentDigest(absl::StrCat(tenant, absl::string_view("\0", 1), digest));
}

std::string DatasetFiles::ShardFolder(const std::string& key) const {
  return absl::StrCat(folder_, "/", key.substr(0, kShardDigits));
}

std::string DatasetFiles::Path(const std::string& key) const {
  return absl::StrCat(ShardFolder(key), "/", key, kSuffix);
}

std::string DatasetFiles::LostPath(const std::string& key) const {
  return absl::StrCat(lost_, "/", key, kSuffix);
}

absl::Status DatasetFiles::Open() {
  const std::string incoming = absl::StrCat(folder_, "/incoming");
  RETURN_IF_ERROR(MakeFolder(incoming));
  ASSIGN_OR_RETURN(std::set<std::string> left_behind, ListFolder(incoming));
  for (const std::string& name : left_behind) {
    const std::string path = absl::StrCat(incoming, "/", name);
    if (unlink(path.c_str()) != 0) return FileError(errno, "remove", path);
  }
  return absl::OkStatus();
}

absl::StatusOr<DatasetFiles::Lost> DatasetFiles::CountLost() const {
  Lost lost;
  std::error_code unknown;
  if (!fs::exists(lost_, unknown)) return lost;
  ASSIGN_OR_RETURN(std::set<std::string> names, ListFolder(lost_));
  for (const std::string& name : names) {
    if (!IsDatasetName(name)) continue;
    const std::string path = absl::StrCat(lost_, "/", name);
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return FileError(errno, "read the size", path);
    ++lost.files;
    lost.bytes += info.st_size;
  }
  return lost;
}

absl::Status DatasetFiles::EnsureShard(const std::string& key) {
  const std::string shard = ShardFolder(key);
  MutexLock lock(&mutex_);
  if (shards_.count(shard) > 0) return absl::OkStatus();
  if (mkdir(shard.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError(errno, "create the folder", shard);
  }
  // Sync also an existing folder: its creator may have crashed before the sync.
  RETURN_IF_ERROR(SyncFolder(folder_));
  shards_.insert(shard);
  return absl::OkStatus();
}

absl::Status DatasetFiles::WriteIncoming(const std::string& path, absl::string_view dataset) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return FileError(errno, "create", path);
  RETURN_IF_ERROR(WriteAll(file, dataset, path));
  if (fsync(file.get()) != 0) return FileError(errno, "fsync", path);
  return absl::OkStatus();
}

absl::Status DatasetFiles::Write(const std::string& key, absl::string_view dataset) {
  RETURN_IF_ERROR(EnsureShard(key));
  IncomingFile incoming(absl::StrCat(folder_, "/incoming/", key, ".", next_incoming_++));
  RETURN_IF_ERROR(WriteIncoming(incoming.path(), dataset));

  const std::string path = Path(key);
  if (rename(incoming.path().c_str(), path.c_str()) != 0) {
    return FileError(errno, "rename to", path);
  }
  incoming.SetRenamed();
  return SyncFolder(ShardFolder(key));
}

absl::StatusOr<std::string> DatasetFiles::Read(const std::string& key, int64_t bytes,
                                               const std::string& digest) const {
  const std::string path = Path(key);
  absl::StatusOr<std::string> dataset = ReadWholeFile(path, bytes);
  if (absl::IsNotFound(dataset.status())) {
    return absl::DataLossError(absl::StrCat(path, ": the file of the dataset is missing"));
  }
  RETURN_IF_ERROR(dataset.status());
  if (ContentDigest(*dataset) != digest) {
    return absl::DataLossError(
        absl::StrCat(path, ": the content no longer matches its digest ", digest));
  }
  return dataset;
}

absl::Status DatasetFiles::Remove(const std::string& key) {
  const std::string path = Path(key);
  if (unlink(path.c_str()) != 0) {
    return errno == ENOENT ? absl::OkStatus() : FileError(errno, "remove", path);
  }
  return SyncFolder(ShardFolder(key));
}

absl::Status DatasetFiles::SetAside(const std::string& key) {
  RETURN_IF_ERROR(MakeFolder(lost_));
  const std::string path = Path(key);
  const std::string lost = LostPath(key);
  // The modification time records when the file was moved to `lost`.
  if (utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) != 0) {
    return FileError(errno, "set the date", path);
  }
  if (rename(path.c_str(), lost.c_str()) != 0) return FileError(errno, "rename to", lost);
  RETURN_IF_ERROR(SyncFolder(lost_));
  return SyncFolder(ShardFolder(key));
}

absl::StatusOr<bool> DatasetFiles::TakeBack(const std::string& key) {
  const std::string path = Path(key);
  const std::string lost = LostPath(key);
  std::error_code unknown;
  if (!fs::exists(lost, unknown)) return false;
  RETURN_IF_ERROR(EnsureShard(key));
  if (rename(lost.c_str(), path.c_str()) != 0) return FileError(errno, "rename to", path);
  RETURN_IF_ERROR(SyncFolder(ShardFolder(key)));
  RETURN_IF_ERROR(SyncFolder(lost_));
  return true;
}

absl::Status DatasetFiles::ForgetLost(const std::string& key) {
  const std::string lost = LostPath(key);
  if (unlink(lost.c_str()) == 0) {
    spdlog::info("the server removed {}, because a registered context has the same content", lost);
  } else if (errno != ENOENT) {
    return FileError(errno, "remove", lost);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::set<std::string>> DatasetFiles::List() const {
  std::set<std::string> keys;
  ASSIGN_OR_RETURN(std::set<std::string> shards, ListFolder(folder_));
  for (const std::string& shard : shards) {
    // Other files do not belong to the store: keep them.
    if (shard.size() != kShardDigits || !IsLowerHex(shard)) continue;
    ASSIGN_OR_RETURN(std::set<std::string> names, ListFolder(absl::StrCat(folder_, "/", shard)));
    for (const std::string& name : names) {
      if (IsDatasetName(name) && absl::StartsWith(name, shard)) {
        keys.insert(name.substr(0, kKeyDigits));
      }
    }
  }
  return keys;
}

}  // namespace chorale
