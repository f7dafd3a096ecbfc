#include "engine/store/context_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/fault.h"
#include "base/require.h"
#include "base/status_macros.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/context_file_format.h"
#include "engine/store/posix_file.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

namespace fs = std::filesystem;
constexpr absl::string_view kFileSuffix = ".kv";
constexpr absl::string_view kTemporarySuffix = ".kv.incoming";
constexpr int64_t kChunkBytes = 4 << 20;  // written between two calls of `unwanted`
// Written between two syncs, so that StopWriting does not wait for a long sync.
constexpr int64_t kSyncBytes = 64 << 20;

std::string KeyOf(absl::string_view tenant, absl::string_view name) {
  return ContentDigest(absl::StrCat(tenant, absl::string_view("\0", 1), name));
}

struct DiskBytes {
  int64_t all = 0;
  int64_t free = 0;  // available to this process
};

std::optional<DiskBytes> DiskOf(const std::string& folder) {
  struct statvfs disk;
  if (statvfs(folder.c_str(), &disk) != 0) return std::nullopt;
  const auto block = static_cast<int64_t>(disk.f_frsize);
  return DiskBytes{.all = static_cast<int64_t>(disk.f_blocks) * block,
                   .free = static_cast<int64_t>(disk.f_bavail) * block};
}

}  // namespace

std::string ContextFiles::Path(const std::string& key) const {
  return absl::StrCat(folder_, "/", key, kFileSuffix);
}

void ContextFiles::RemoveFile(const std::string& path) const {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    spdlog::warn("{}", FileError(errno, "remove", path).ToString());
  }
}

absl::Status ContextFiles::Open(absl::FunctionRef<Found(const EncodedContextId&)> judge) {
  RETURN_IF_ERROR(MakeFolder(folder_));
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return FileError(error.value(), "list", folder_);
  int64_t removed = 0;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(folder_, "/", name);
    if (absl::EndsWith(name, kTemporarySuffix)) RemoveFile(path);
    if (!absl::EndsWith(name, kFileSuffix)) continue;  // not a context file
    absl::StatusOr<ContextFileReader> reader = ContextFileReader::Open(path);
    absl::StatusOr<ContextFileLengths> lengths =
        reader.ok() ? reader->ReadLengths() : reader.status();
    absl::StatusOr<std::string> head =
        lengths.ok() ? reader->Read(lengths->head) : lengths.status();
    std::optional<EncodedContextId> id = head.ok() ? IdFromHead(*head) : std::nullopt;
    const std::string key = name.substr(0, name.size() - kFileSuffix.size());
    if (!id || KeyOf(id->tenant, id->name) != key || judge(*id) == Found::kRemove) {
      RemoveFile(path);
      ++removed;
      continue;
    }
    MutexLock lock(&mutex_);
    files_[key] = {*std::move(id), reader->bytes(), reader->modified()};
    bytes_ += reader->bytes();
  }
  if (removed > 0) {
    spdlog::info(
        "the server removed {} file(s) of encoded contexts: they were damaged, or belonged to "
        "another model, backend or build, or to contexts that are no longer registered",
        removed);
  }
  MakeRoom("", 0, [this] { return max_bytes_ - this->bytes(); });
  struct stat here;
  struct stat around;
  on_disk_of_its_own_ = stat(folder_.c_str(), &here) == 0 &&
                        stat(absl::StrCat(folder_, "/..").c_str(), &around) == 0 &&
                        here.st_dev != around.st_dev;
  return absl::OkStatus();
}

int64_t DiskMargin(int64_t disk_bytes) { return std::min(disk_bytes / 8, int64_t{3} << 30); }

bool ContextFiles::Has(const EncodedContextId& id) const {
  const std::string key = KeyOf(id.tenant, id.name);
  MutexLock lock(&mutex_);
  const auto found = files_.find(key);
  return found != files_.end() && found->second.id == id;
}

int64_t ContextFiles::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

void ContextFiles::Forget(const std::string& key) {
  MutexLock lock(&mutex_);
  const auto found = files_.find(key);
  if (found == files_.end()) return;
  bytes_ -= found->second.bytes;
  files_.erase(found);
}

std::string ContextFiles::Victim(const std::string& tenant, int64_t bytes, int64_t capacity) const {
  std::map<absl::string_view, int64_t> held;
  if (bytes > 0) held[tenant] = bytes;
  for (const auto& [key, file] : files_) held[file.id.tenant] += file.bytes;
  if (held.empty()) return "";
  const int64_t part = capacity / static_cast<int64_t>(held.size());
  const File* oldest = nullptr;
  std::string victim;
  for (const auto& [key, file] : files_) {
    if (held[file.id.tenant] <= part || (oldest != nullptr && oldest->used <= file.used)) continue;
    oldest = &file;
    victim = key;
  }
  return victim;
}

bool ContextFiles::MakeRoom(const std::string& tenant, int64_t bytes,
                            absl::FunctionRef<int64_t()> room) {
  while (true) {
    const int64_t free = room();
    if (bytes <= free) return true;
    std::string victim;
    {
      MutexLock lock(&mutex_);
      victim = Victim(tenant, bytes, bytes_ + free);
    }
    if (victim.empty()) return false;
    Forget(victim);
    RemoveFile(Path(victim));
  }
}

int64_t ContextFiles::RoomOnDisk() const {
  const std::optional<DiskBytes> disk = DiskOf(folder_);
  if (!disk.has_value()) return std::numeric_limits<int64_t>::max();  // the write may still fail
  return disk->free - DiskMargin(disk->all);
}

bool ContextFiles::FreeDisk(int64_t bytes) {
  if (on_disk_of_its_own_) return false;
  const int64_t held = this->bytes();
  const std::optional<DiskBytes> disk = DiskOf(folder_);
  if (held == 0 || (disk.has_value() && disk->free + held < bytes)) return false;
  const int64_t staying = std::max(held - bytes, int64_t{0});
  MakeRoom("", 0, [&] { return staying - this->bytes(); });
  spdlog::warn(
      "the server removed files of encoded contexts ({} bytes), because the disk is full; it "
      "encodes the contexts again",
      held - this->bytes());
  return true;
}

void ContextFiles::Remove(const std::string& tenant, const std::string& name) {
  const std::string key = KeyOf(tenant, name);
  Forget(key);
  RemoveFile(Path(key));
}

absl::Status ContextFiles::WriteTemporary(const std::string& path, const EncodedContextId& id,
                                          absl::string_view encoder_state, KvSource kv,
                                          absl::FunctionRef<bool()> unwanted) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return FileError(errno, "create", path);
  if (FaultAt(FaultPlace::kContextFileWrite)) return FileError(EIO, "write", path);
  Sha256 digest;
  const auto write = [&](absl::string_view bytes) {
    digest.Add(bytes);
    return WriteAll(file, bytes, path);
  };
  const std::string head = HeadOf(id);
  const ContextFileLengths lengths = {static_cast<int64_t>(head.size()),
                                      static_cast<int64_t>(encoder_state.size()), id.kv_bytes};
  RETURN_IF_ERROR(write(kContextFileMagic));
  RETURN_IF_ERROR(write({reinterpret_cast<const char*>(&lengths), sizeof(lengths)}));
  RETURN_IF_ERROR(write(head));
  RETURN_IF_ERROR(write(encoder_state));
  std::string chunk;
  for (int64_t offset = 0; offset < id.kv_bytes; offset += kChunkBytes) {
    chunk.resize(static_cast<size_t>(std::min(id.kv_bytes - offset, kChunkBytes)));
    if (stopped_ || unwanted() || !kv(offset, absl::MakeSpan(chunk))) {
      return absl::CancelledError(absl::StrCat(path, ": no longer wanted"));
    }
    RETURN_IF_ERROR(write(chunk));
    if (offset % kSyncBytes == kSyncBytes - kChunkBytes && fdatasync(file.get()) != 0) {
      return FileError(errno, "fdatasync", path);
    }
  }
  RETURN_IF_ERROR(WriteAll(file, digest.Finish(), path));
  if (fsync(file.get()) != 0) return FileError(errno, "fsync", path);
  return absl::OkStatus();
}

absl::Status ContextFiles::Write(const EncodedContextId& id, absl::string_view encoder_state,
                                 KvSource kv, absl::FunctionRef<bool()> unwanted) {
  const auto bytes =
      static_cast<int64_t>(kContextFileHeadOffset + HeadOf(id).size() + encoder_state.size()) +
      id.kv_bytes + kContextFileDigestBytes;
  if (bytes > max_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("the encoded context '", id.name, "' has ",
                                                     bytes, " bytes; the limit of all files is ",
                                                     max_bytes_));
  }
  const std::string key = KeyOf(id.tenant, id.name);
  Remove(id.tenant, id.name);  // an older file, which could not be used
  if (!MakeRoom(id.tenant, bytes, [this] { return max_bytes_ - this->bytes(); })) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the encoded context '", id.name, "' has ", bytes,
                     " bytes, more than its tenant's share of --context_files_mib"));
  }
  if (!MakeRoom(id.tenant, bytes, [this] { return RoomOnDisk(); })) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the encoded context '", id.name, "' has ", bytes,
                     " bytes, but the disk has too little free space"));
  }
  const std::string temporary = absl::StrCat(folder_, "/", key, kTemporarySuffix);
  const std::string path = Path(key);
  absl::Status status = WriteTemporary(temporary, id, encoder_state, kv, unwanted);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = FileError(errno, "rename to", path);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  status = SyncFolder(folder_);
  // A caller that cancels a write sets `unwanted` before it calls Remove. So either this check
  // detects it, or Remove runs later and removes the file.
  {
    MutexLock lock(&mutex_);
    if (status.ok() && !unwanted()) {
      files_[key] = {id, bytes, absl::Now()};
      bytes_ += bytes;
      return absl::OkStatus();
    }
  }
  unlink(path.c_str());
  return status.ok() ? absl::CancelledError(absl::StrCat(path, ": no longer wanted")) : status;
}

absl::StatusOr<std::string> ContextFiles::ReadFile(const std::string& path,
                                                   const EncodedContextId& id,
                                                   absl::Span<char> kv) const {
  ASSIGN_OR_RETURN(ContextFileReader reader, ContextFileReader::Open(path));
  if (FaultAt(FaultPlace::kContextFileRead)) return FileError(EIO, "read", path);
  ASSIGN_OR_RETURN(ContextFileLengths lengths, reader.ReadLengths());
  ASSIGN_OR_RETURN(std::string head, reader.Read(lengths.head));
  if (head != HeadOf(id) || lengths.kv != static_cast<int64_t>(kv.size())) {
    return absl::DataLossError(
        absl::StrCat(path, ": belongs to another registration, model, backend or build"));
  }
  ASSIGN_OR_RETURN(std::string state, reader.Read(lengths.state));
  RETURN_IF_ERROR(reader.Read(kv));
  RETURN_IF_ERROR(reader.CheckDigest());
  return state;
}

absl::StatusOr<std::string> ContextFiles::Read(const EncodedContextId& id, absl::Span<char> kv) {
  Require(static_cast<int64_t>(kv.size()) == id.kv_bytes, "the memory is as large as the context");
  const std::string key = KeyOf(id.tenant, id.name);
  const std::string path = Path(key);
  absl::StatusOr<std::string> state = ReadFile(path, id, kv);
  if (!state.ok()) {
    Forget(key);
    if (!absl::IsNotFound(state.status())) RemoveFile(path);
    return state;
  }
  // The modification time records the last use across restarts.
  utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  MutexLock lock(&mutex_);
  if (const auto found = files_.find(key); found != files_.end()) found->second.used = absl::Now();
  return state;
}

}  // namespace chorale
