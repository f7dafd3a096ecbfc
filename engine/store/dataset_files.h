// Encoded datasets as content-addressed files.
#ifndef CHORALE_ENGINE_STORE_DATASET_FILES_H_
#define CHORALE_ENGINE_STORE_DATASET_FILES_H_

#include <atomic>
#include <cstdint>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// A file's key: SHA-256 of tenant, a zero byte and the dataset's digest, in hex. Two tenants with
// the same content have two files: tenants share no data.
std::string DatasetKey(absl::string_view tenant, absl::string_view digest);

// A file is `folder`/<first 2 digits of the key>/<key>.dataset. It is written as
// `folder`/incoming/<key>.<n>, fsynced, and renamed, so a file under its final name is always
// complete.
//
// A file without a record is moved to another folder, `lost`, as <key>.dataset, and kept there: the
// data belong to a user, and the age of a file is no criterion, because a clock may be wrong.
//
// Thread-safe; calls with the same key must not run at the same time, except Read.
class DatasetFiles {
 public:
  // REQUIRES: both folders are on one file system.
  DatasetFiles(std::string folder, std::string lost)
      : folder_(std::move(folder)), lost_(std::move(lost)) {}

  // Creates `folder` and empties incoming/.
  absl::Status Open();

  // Writes the file, and returns when it is durable. Replaces an existing file, and so repairs a
  // damaged one. ResourceExhausted: the disk is full. Internal: other I/O errors.
  absl::Status Write(const std::string& key, absl::string_view dataset);

  // Returns DataLoss if the file is missing, or its size or digest is not the given one.
  absl::StatusOr<std::string> Read(const std::string& key, int64_t bytes,
                                   const std::string& digest) const;

  // Returns OK also if there is no such file.
  absl::Status Remove(const std::string& key);

  // SetAside moves the file to `lost`. TakeBack moves it back, and returns false if it is not
  // there.
  absl::Status SetAside(const std::string& key);
  absl::StatusOr<bool> TakeBack(const std::string& key);
  // Removes the file from `lost`, and logs the removal. Returns OK also if it is not there.
  absl::Status ForgetLost(const std::string& key);

  // The files in `lost`.
  struct Lost {
    int64_t files = 0;
    int64_t bytes = 0;
  };
  absl::StatusOr<Lost> CountLost() const;

  // The keys of all files except those in `lost`.
  absl::StatusOr<std::set<std::string>> List() const;

 private:
  std::string ShardFolder(const std::string& key) const;
  std::string Path(const std::string& key) const;
  std::string LostPath(const std::string& key) const;
  // Durably creates the folder that contains `key`.
  absl::Status EnsureShard(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status WriteIncoming(const std::string& path, absl::string_view dataset);

  const std::string folder_;
  const std::string lost_;
  std::atomic<uint64_t> next_incoming_ = 0;
  Mutex mutex_;
  // Shards whose own entry is known to be durable.
  std::set<std::string> shards_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_DATASET_FILES_H_
