// Encoded contexts as files, so that their keys and values can be read instead of computed again.
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

// Everything that the keys and values in a file follow from. A file is used only for a context of
// which all of it is true.
struct EncodedContextId {
  // The registration: a name that is deleted and registered again is another one, with the same
  // content as well.
  std::string tenant;
  std::string name;
  std::string dataset;  // digest
  int64_t created_ns = 0;
  std::string model;         // name
  std::string model_digest;  // of the model's files
  std::string kv_format;     // Backend::kv_format, and BackendModel's
  int64_t kv_bytes = 0;

  bool operator==(const EncodedContextId&) const = default;
};

// `folder`/<SHA-256 of tenant and name>.kv, written under a temporary name, fsynced and renamed. A
// file holds its id, the state of the row encoder, the keys and values, and a SHA-256 of all that.
//
// The folder is a cache: any file may be missing, and none is trusted. A file that is damaged, or
// is not of the context that is asked for, is removed and logged. Room for new files is made by the
// least recently used ones of the tenants that would hold more than an equal part: what is within
// an equal part stays. Files leave room on their disk (DiskMargin) for what cannot be had again.
//
// Thread-safe, but only one thread may write; Has waits for no disk.
class ContextFiles {
 public:
  // What to do with a file that is found when the folder is opened.
  enum class Found {
    kKeep,
    kRemove,  // nobody will ask for it any more
  };

  // `max_bytes` of all files together.
  ContextFiles(std::string folder, int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // Creates the folder, removes what a crash left behind and what `judge` does not want, and the
  // least recently used files beyond the limit. Call once, before anything else.
  absl::Status Open(absl::FunctionRef<Found(const EncodedContextId&)> judge);

  // Whether Read may succeed.
  bool Has(const EncodedContextId& id) const;

  // Fills `to` with keys and values from `offset` on. False: they are gone.
  using KvSource = absl::FunctionRef<bool(int64_t offset, absl::Span<char> to)>;

  // Returns when the file is durable; it replaces an older one of the context. `kv` gives its
  // id.kv_bytes bytes. `unwanted` is asked now and then; it must say true before Remove is called
  // for the context. Both are called from this thread. Once keys and values are gone or unwanted,
  // nothing is left and Cancelled is returned. ResourceExhausted: the disk is full, or the context
  // is larger than the limit, or than its tenant's part and what others leave. Internal: other I/O
  // errors. Nothing is left then either.
  absl::Status Write(const EncodedContextId& id, absl::string_view encoder_state, KvSource kv,
                     absl::FunctionRef<bool()> unwanted);
  // From now on Write ends early, with Cancelled; a file that is complete stays. Thread-safe.
  void StopWriting() { stopped_ = true; }

  // Fills `kv`, and returns the state of the row encoder. NotFound; DataLoss when the file is
  // damaged or foreign, which is then removed; `kv` may have been written to all the same.
  // REQUIRES: kv has id.kv_bytes.
  absl::StatusOr<std::string> Read(const EncodedContextId& id, absl::Span<char> kv);

  // Removes files of so many bytes together, in the order in which Write does, or all of them.
  // False, and nothing is removed, if there is none, if the disk would have less than `bytes` free
  // even without them, or if the folder lies on another disk than the one around it. Thread-safe.
  bool FreeDisk(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes the file of a context of that name. A failure is logged; the next Open tries again.
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
  // Removes files until `bytes` more of the tenant fit into `room`, which is asked again after each
  // removal; false if those of others would have to go that are within an equal part.
  bool MakeRoom(const std::string& tenant, int64_t bytes, absl::FunctionRef<int64_t()> room)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes that files may still take of the disk.
  int64_t RoomOnDisk() const;
  // The file to remove first, so that those of a tenant and `bytes` more of it take an equal part
  // of `capacity`; empty: none.
  std::string Victim(const std::string& tenant, int64_t bytes, int64_t capacity) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);  // its bytes
  void RemoveFile(const std::string& path) const;

  const std::string folder_;
  const int64_t max_bytes_;
  bool on_disk_of_its_own_ = false;  // since Open
  std::atomic<bool> stopped_{false};
  mutable Mutex mutex_;  // never held while the disk is used, but by Open
  Files files_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What K/V files leave free on a disk of so many bytes: an eighth, at most 3 GiB. More than what
// the alert of a low disk waits for.
int64_t DiskMargin(int64_t disk_bytes);

// The steps of a Write and then a Remove at which tests may fail, as for StoreFailpointSteps.
absl::Span<const char* const> ContextFileSteps();

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_FILES_H_
