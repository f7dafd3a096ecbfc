// Room on the disk of a store: a reserve for deletions, and whether new data are taken.
#ifndef CHORALE_ENGINE_STORE_DISK_ROOM_H_
#define CHORALE_ENGINE_STORE_DISK_ROOM_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// A deletion also writes: on a full disk nothing could be deleted, and nothing would ever make
// room. So a file of kReserveBytes is kept, whose blocks are given back to the disk when a deletion
// finds it full, and taken again when there is room.
//
// Full is a state: from the first write that found no room until there is room again, which
// CheckRoom looks for. Meanwhile new data are refused before anything is written.
//
// Thread-safe.
class DiskRoom {
 public:
  // More than the log of the database grows by while the largest record is deleted.
  static constexpr int64_t kReserveBytes = 1 << 20;
  // What opening the store writes: the log of the database and its index, which SQLite allocates.
  static constexpr int64_t kOpeningBytes = 256 << 10;
  static constexpr absl::Duration kRetryDelay = absl::Seconds(10);

  // `reserve` is the path of the file, in a folder that exists.
  explicit DiskRoom(std::string reserve);

  // Creates the file. The disk is full from the start if there is no room for it and kOpeningBytes.
  absl::Status Open();

  // Ok if new data may be written, else the error for the caller: ResourceExhausted with reason
  // DISK_FULL and a retry delay. While the disk is full, tries to take the reserve, and as much
  // beside it.
  absl::Status CheckRoom();

  // To be told that a write found no room. Returns the error for the caller; `cause`, which names
  // paths, goes to the log.
  absl::Status Full(const absl::Status& cause);

  // Gives the reserve back to the disk; CheckRoom takes it again.
  void Release();
  // Takes as much of the reserve as there is room for, at least half of it or none. For a disk that
  // stays full, so that nobody else gets what Release gave back.
  void TakeWhatIsLeft();

  bool full() const;

 private:
  // Whether the reserve is taken and there is room beside it.
  bool TakeReserve() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetFull(const absl::Status& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string reserve_;
  const std::string attempt_;  // a file that exists for a moment, to see whether there is room
  mutable Mutex mutex_;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_DISK_ROOM_H_
