// The system calls of this process that change files: recorded, and made to fail.
#ifndef CHORALE_TESTS_ENGINE_STORE_RECORDED_DISK_H_
#define CHORALE_TESTS_ENGINE_STORE_RECORDED_DISK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/engine/store/simulated_disk.h"

namespace chorale {

// Records the calls of this process, of SQLite's as well, that change files below a folder: this
// program defines the functions of the C library that make them. One recording at a time.
// Thread-safe.
class DiskRecording {
 public:
  // REQUIRES: the folder is empty.
  explicit DiskRecording(const std::string& folder);
  ~DiskRecording();
  DiskRecording(const DiskRecording&) = delete;
  DiskRecording& operator=(const DiskRecording&) = delete;

  // The number of calls so far.
  int64_t count() const;
  // All calls so far.
  std::vector<DiskCall> calls() const;
};

// Runs a function before each such call below a folder. It returns the errno with which the call
// fails, or 0. One at a time. Thread-safe; the function may itself change files.
class BeforeEachCall {
 public:
  // `call`: "open" (of a new or an emptied file), "write", "fsync", "resize", "rename", "unlink" or
  // "mkdir"; `path` is relative to the folder.
  using Function = std::function<int(const std::string& call, const std::string& path)>;
  // Several threads may call the function at once.
  BeforeEachCall(const std::string& folder, Function function);
  // Waits until no thread is in the function.
  ~BeforeEachCall();
  BeforeEachCall(const BeforeEachCall&) = delete;
  BeforeEachCall& operator=(const BeforeEachCall&) = delete;
};

// Copies a folder as a crash would leave it: no recorded or hooked kind of call of another thread
// changes it meanwhile. `to` exists.
void CopyAtOnce(const std::string& from, const std::string& to);

// While one exists, a write of two bytes or more writes half of them.
class ShortWrites {
 public:
  ShortWrites();
  ~ShortWrites();
  ShortWrites(const ShortWrites&) = delete;
  ShortWrites& operator=(const ShortWrites&) = delete;
};

// While one exists, fsync does nothing, so that tests of many folders are fast.
class WithoutSync {
 public:
  WithoutSync();
  ~WithoutSync();
  WithoutSync(const WithoutSync&) = delete;
  WithoutSync& operator=(const WithoutSync&) = delete;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_STORE_RECORDED_DISK_H_
