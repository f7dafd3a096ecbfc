// Manages the disk space of a store: a reserve for deletions, and whether new data are accepted.
#ifndef CHORALE_ENGINE_STORE_DISK_ROOM_H_
#define CHORALE_ENGINE_STORE_DISK_ROOM_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// A deletion also writes to the disk. Without a reserve, no context could be deleted on a full
// disk. So the store keeps a file of kReserveBytes. Its blocks are released when a deletion finds
// the disk full, and allocated again when there is free space.
//
// The disk counts as full from the first write that fails for lack of space until CheckRoom finds
// free space. Meanwhile new data are rejected before anything is written.
//
// Thread-safe.
class DiskRoom {
 public:
  // Exceeds the growth of the database's log while the largest record is deleted.
  static constexpr int64_t kReserveBytes = 1 << 20;
  // Written when the store is opened: the log of the database and its index, which SQLite
  // allocates.
  static constexpr int64_t kOpeningBytes = 256 << 10;
  static constexpr absl::Duration kRetryDelay = absl::Seconds(10);

  // `reserve` is the path of the file, in a folder that exists.
  explicit DiskRoom(std::string reserve);

  // Creates the file. The disk counts as full from the start if there is no space for the file and
  // kOpeningBytes.
  absl::Status Open();

  // Returns OK if new data may be written, else the error for the caller: ResourceExhausted with
  // reason DISK_FULL and a retry delay. While the disk is full, tries to allocate the reserve and
  // as much space in addition.
  absl::Status CheckRoom();

  // Call when a write found no free space. Returns the error for the caller. `cause`, which
  // contains paths, is logged.
  absl::Status Full(const absl::Status& cause);

  // While one exists, the space of the reserve is free for the writes of a deletion. At its end, as
  // much of the reserve as there is space for is allocated again, at least half of it, or none, so
  // that no other process uses the space. CheckRoom allocates the rest.
  class ReleasedReserve {
   public:
    // `room` outlives this object.
    explicit ReleasedReserve(DiskRoom& room);
    ~ReleasedReserve();
    ReleasedReserve(const ReleasedReserve&) = delete;
    ReleasedReserve& operator=(const ReleasedReserve&) = delete;

   private:
    DiskRoom& room_;
  };

  bool full() const;

 private:
  // Allocates the reserve. Returns whether there is as much free space in addition.
  bool TakeReserve() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetFull(const absl::Status& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string reserve_;
  const std::string attempt_;  // a temporary file that tests for free space
  mutable Mutex mutex_;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_DISK_ROOM_H_
