// Handles SIGTERM and SIGINT on a dedicated thread: no code runs in a signal handler.
#ifndef CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_
#define CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// The first signal starts a graceful shutdown and a timer, the second one makes the shutdown
// immediate. A third signal, or the timer, ends the process at once with exit status 1.
//
// Create it before any other thread: it blocks the signals for the calling thread, and new threads
// inherit that. Only the creating thread may call Wait and the destructor.
class ShutdownSignal {
 public:
  struct Handlers {
    std::function<void()> first;   // called on the signal thread
    std::function<void()> second;  // called on the signal thread
    absl::Duration limit;          // from the first signal to a forced exit
  };

  explicit ShutdownSignal(Handlers handlers);
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // Sends SIGTERM to this process. May be called from any thread.
  void Raise();

  // Returns after the first signal.
  void Wait();

 private:
  void Run();
  bool stopping() const;

  const Handlers handlers_;
  mutable Mutex mutex_;
  CondVar received_;
  bool has_received_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_
