// Stores encoded contexts in files, so that their keys and values can be read instead of computed
// again.
#ifndef CHORALE_ENGINE_STORE_CONTEXT_FILES_H_
#define CHORALE_ENGINE_STORE_CONTEXT_FILES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"

namespace chorale {

// Identifies everything that determines the keys and values in a file. A file is used only for a
// context with an equal id.
struct EncodedContextId {
  // The registration. A context that is deleted and registered again under the same name is another
  // registration, even with the same content.
  std::string tenant;
  std::string name;
  std::string dataset;  // digest
  int64_t created_ns = 0;
  std::string model;         // name
  std::string model_digest;  // SHA-256 of the model's files
  std::string kv_format;     // Backend::kv_format, and BackendModel's
  int64_t kv_bytes = 0;

  bool operator==(const EncodedContextId&) const = default;
};

// A file is `folder`/<SHA-256 of tenant and name>.kv, written under a temporary name, fsynced and
// renamed. It contains the id, the state of the row encoder, the keys and values, and a SHA-256 of
// these bytes.
//
// The folder is a cache: any file may be missing, and no file is trusted. A file that is damaged,
// or belongs to another context, is removed. To free space for a new file, Write removes the least
// recently used files of tenants that would exceed an equal share of the limit; files within an
// equal share are kept. Files leave free space on their disk (DiskMargin) for data that cannot be
// recomputed.
//
// Thread-safe, except that only one thread may call Write. Has does not wait for the disk.
class ContextFiles {
 public:
  // The action for a file that Open finds in the folder.
  enum class Found {
    kKeep,
    kRemove,  // no context can use it
  };

  // `max_bytes` limits the total size of all files.
  ContextFiles(std::string folder, int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // Creates the folder. Removes temporary files that a crash left behind, files that are damaged or
  // that `judge` rejects, and the least recently used files beyond the limit. Call once, before any
  // other method.
  absl::Status Open(absl::FunctionRef<Found(const EncodedContextId&)> judge);

  // Whether Read may find a file for this id.
  bool Has(const EncodedContextId& id) const;

  // Fills `to` with the keys and values from `offset` on. Returns false if they are no longer
  // available.
  using KvSource = absl::FunctionRef<bool(int64_t offset, absl::Span<char> to)>;

  // Writes a file, replaces an older file of the context, and returns when the new file is durable.
  // `kv` provides id.kv_bytes bytes. Write polls `unwanted`, which must return true before Remove
  // is called for the context. Both are called on this thread. No file is left after an error.
  // Cancelled: the keys and values are no longer available, `unwanted` returned true, or
  // StopWriting was called. ResourceExhausted: the disk is full, or the context exceeds the limit,
  // or the tenant's share plus the space that other tenants do not use. Internal: other I/O errors.
  absl::Status Write(const EncodedContextId& id, absl::string_view encoder_state, KvSource kv,
                     absl::FunctionRef<bool()> unwanted);
  // Makes Write end early with Cancelled from now on. Complete files remain. Thread-safe.
  void StopWriting() { stopped_ = true; }

  // Fills `kv`, and returns the state of the row encoder. NotFound: there is no file. DataLoss: the
  // file is damaged or has another id. After any error but NotFound the file is removed, and `kv`
  // may be partly overwritten. REQUIRES: kv.size() == id.kv_bytes.
  absl::StatusOr<std::string> Read(const EncodedContextId& id, absl::Span<char> kv);

  // Removes files with a total of at least `bytes` bytes, in the same order as Write, or all files.
  // Returns false and removes no file if there is none, if the disk would have less than `bytes`
  // free even without the files, or if the folder is on another disk than its parent. Thread-safe.
  bool FreeDisk(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes the file of the context. A failure is logged; the next Open tries again.
  void Remove(const std::string& tenant, const std::string& name);

  int64_t bytes() const;  // of all files

 private:
  struct File {
    EncodedContextId id;
    int64_t bytes = 0;
    absl::Time used;
  };
  using Files = std::unordered_map<std::string, File>;  // by key

  std::string Path(const std::string& key) const;
  absl::Status WriteTemporary(const std::string& path, const EncodedContextId& id,
                              absl::string_view encoder_state, KvSource kv,
                              absl::FunctionRef<bool()> unwanted);
  absl::StatusOr<std::string> ReadFile(const std::string& path, const EncodedContextId& id,
                                       absl::Span<char> kv) const;
  // Removes files until `bytes` more of the tenant fit into `room`, which is called again after
  // each removal. Returns false if that would require the removal of files within an equal share.
  bool MakeRoom(const std::string& tenant, int64_t bytes, absl::FunctionRef<int64_t()> room)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The number of bytes that files may still use on the disk.
  int64_t RoomOnDisk() const;
  // Returns the file to remove first, so that each tenant, with `bytes` more of `tenant`, stays
  // within an equal share of `capacity`; empty if there is none.
  std::string Victim(const std::string& tenant, int64_t bytes, int64_t capacity) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);  // also subtracts its bytes
  void RemoveFile(const std::string& path) const;

  const std::string folder_;
  const int64_t max_bytes_;
  bool on_disk_of_its_own_ = false;  // set by Open
  std::atomic<bool> stopped_{false};
  mutable Mutex mutex_;  // not held during disk access, except in Open
  Files files_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The free space that K/V files leave on a disk of `disk_bytes`: an eighth, at most 3 GiB. It
// exceeds the threshold of the alert for low disk space.
int64_t DiskMargin(int64_t disk_bytes);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_FILES_H_
