#include "engine/store/disk_room.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/store/posix_file.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

absl::Status DiskFullError() {
  return ExhaustedRetryAfter(ErrorReason::kDiskFull,
                             "the server's disk is full: registrations fail until there is free "
                             "space; delete contexts to free space",
                             DiskRoom::kRetryDelay);
}

// Allocates the disk blocks of the first `bytes` bytes of the file.
absl::Status Allocate(const std::string& path, int64_t bytes) {
  const FileDescriptor file(
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file.valid()) return FileError(errno, "open", path);
  int error = 0;
  do {
    error = posix_fallocate(file.get(), 0, bytes);
  } while (error == EINTR);
  return error == 0 ? absl::OkStatus() : FileError(error, "allocate space", path);
}

}  // namespace

DiskRoom::DiskRoom(std::string reserve)
    : reserve_(std::move(reserve)), attempt_(absl::StrCat(reserve_, ".attempt")) {}

absl::Status DiskRoom::Open() {
  unlink(attempt_.c_str());  // left by a killed process
  absl::Status taken = Allocate(reserve_, kReserveBytes);
  // The reserve may exist from an earlier process on a disk that is otherwise full.
  if (taken.ok()) taken = Allocate(attempt_, kOpeningBytes);
  unlink(attempt_.c_str());
  if (!absl::IsResourceExhausted(taken)) return taken;
  MutexLock lock(&mutex_);
  SetFull(taken);
  return absl::OkStatus();
}

absl::Status DiskRoom::CheckRoom() {
  MutexLock lock(&mutex_);
  if (!full_) return absl::OkStatus();
  if (!TakeReserve()) return DiskFullError();
  full_ = false;
  spdlog::info("the disk of the data folder has free space again: registrations succeed");
  return absl::OkStatus();
}

bool DiskRoom::TakeReserve() {
  if (!Allocate(reserve_, kReserveBytes).ok()) return false;
  // A disk quota is detectable only by an allocation.
  const bool room = Allocate(attempt_, kReserveBytes).ok();
  unlink(attempt_.c_str());
  return room;
}

absl::Status DiskRoom::Full(const absl::Status& cause) {
  MutexLock lock(&mutex_);
  SetFull(cause);
  return DiskFullError();
}

void DiskRoom::SetFull(const absl::Status& cause) {
  if (std::exchange(full_, true)) return;
  spdlog::error("the disk is full: registrations fail until there is free space; {}",
                std::string(cause.message()));
}

DiskRoom::ReleasedReserve::ReleasedReserve(DiskRoom& room) : room_(room) {
  MutexLock lock(&room_.mutex_);
  if (truncate(room_.reserve_.c_str(), 0) != 0 && errno != ENOENT) {
    spdlog::error("{}", FileError(errno, "release the space", room_.reserve_).ToString());
  }
}

DiskRoom::ReleasedReserve::~ReleasedReserve() {
  constexpr int64_t kStep = 32 << 10;
  MutexLock lock(&room_.mutex_);
  for (int64_t bytes = kReserveBytes; bytes >= kReserveBytes / 2; bytes -= kStep) {
    if (Allocate(room_.reserve_, bytes).ok()) return;
  }
}

bool DiskRoom::full() const {
  MutexLock lock(&mutex_);
  return full_;
}

}  // namespace chorale
