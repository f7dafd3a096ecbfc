// Detects when the configuration must be read again.
#ifndef CHORALE_SERVER_PROCESS_RELOAD_TRIGGER_H_
#define CHORALE_SERVER_PROCESS_RELOAD_TRIGGER_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// Identifies the version of the file to which a path leads, through symbolic links; empty if there
// is no file. Another inode, length or change time is another version, so a swapped link is
// detected as well.
std::string FileVersion(const std::string& path);

// Calls back after SIGHUP, and when one of the files has another version that is stable for one
// period, so that a file is not read while it is being written. It polls, because notifications of
// the kernel do not cover network file systems or links to other folders.
//
// Create it before any other thread: it blocks the signal for the calling thread, and new threads
// inherit that. A signal before Start is not lost. One thread owns it; other threads may query
// whether to stop.
class ReloadTrigger {
 public:
  // `file` may be empty: then only the signal and `others`, which must not have been read yet,
  // trigger a reload. `version` is the version of the file when it was read.
  ReloadTrigger(std::string file, std::string version, std::vector<std::string> others = {});
  // Waits for the callback, if it runs.
  ~ReloadTrigger();
  ReloadTrigger(const ReloadTrigger&) = delete;
  ReloadTrigger& operator=(const ReloadTrigger&) = delete;

  // Calls `reload` on its own thread. Call at most once.
  void Start(absl::Duration period, std::function<void()> reload);
  // The callback is not called again. A running callback can query whether it should end early.
  void RequestStop();
  bool stop_requested() const;
  // Also waits for the callback, if it runs.
  void Stop();

 private:
  void Run(absl::Duration period, const std::function<void()>& reload);
  // Whether a file has changed, and then remained unchanged since the last call.
  bool FilesHaveSettled();
  std::string FilesVersion() const;

  const std::string file_;
  const std::vector<std::string> others_;
  std::string read_;  // version of the files that were read; used by the thread after Start
  std::string seen_;  // version at the last check of the thread
  mutable Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_PROCESS_RELOAD_TRIGGER_H_
