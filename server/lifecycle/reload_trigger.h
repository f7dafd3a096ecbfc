// Says when the configuration is to be read again.
#ifndef CHORALE_SERVER_LIFECYCLE_RELOAD_TRIGGER_H_
#define CHORALE_SERVER_LIFECYCLE_RELOAD_TRIGGER_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// Which version of a file a path leads to, through symbolic links; empty if there is none. Another
// inode, length or time of change is another version, so a link that is swapped is noticed as well.
std::string FileVersion(const std::string& path);

// Calls back after SIGHUP, and when one of the files has another version that stays for one period:
// a file that is being written is not read half-way. It looks again and again, because a
// notification of the kernel knows neither network file systems nor links to other folders.
//
// Create it before any other thread: it blocks the signal for the calling thread, and new threads
// inherit that. A signal that comes before Start is not lost. One thread owns
// it; others may ask whether to stop.
class ReloadTrigger {
 public:
  // `file` may be empty: only the signal counts, and `others`, which must not have been read
  // yet. `version` is that of the file when it was read.
  ReloadTrigger(std::string file, std::string version, std::vector<std::string> others = {});
  // Waits for the callback, if it runs.
  ~ReloadTrigger();
  ReloadTrigger(const ReloadTrigger&) = delete;
  ReloadTrigger& operator=(const ReloadTrigger&) = delete;

  // Calls `reload` on a thread of its own. Call at most once.
  void Start(absl::Duration period, std::function<void()> reload);
  // The callback is not called again. One that runs can ask whether it should end early.
  void RequestStop();
  bool stop_requested() const;
  // Also waits for the callback, if it runs.
  void Stop();

 private:
  void Run(absl::Duration period, const std::function<void()>& reload);
  // Whether a file has changed, and then stayed as it is since the last call.
  bool FilesHaveSettled();
  std::string FilesVersion() const;

  const std::string file_;
  const std::vector<std::string> others_;
  std::string read_;  // version of the files that was read; the thread's from Start on
  std::string seen_;  // version when the thread looked last
  mutable Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_RELOAD_TRIGGER_H_
