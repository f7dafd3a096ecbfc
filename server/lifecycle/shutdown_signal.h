// Handles SIGTERM and SIGINT on a dedicated thread: no code runs in a signal handler.
#ifndef CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_
#define CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// The first SIGTERM starts the time as a lame duck: load balancers learn that the server will go,
// and it still serves. Another signal ends that time. SIGINT, which comes from somebody at a
// terminal, skips it. Then the graceful shutdown and a timer start; the next signal makes the
// shutdown immediate. One more, or the timer, ends the process at once with exit status 1.
//
// Create it before any other thread: it blocks the signals for the calling thread, and new threads
// inherit that. Only the creating thread may call Wait and the destructor.
class ShutdownSignal {
 public:
  struct Handlers {
    std::function<void()> first;  // called on the signal thread
    std::function<void()> hurry;  // called on the signal thread
    absl::Duration lame_duck;     // from SIGTERM to the graceful shutdown; may be 0
    absl::Duration limit;         // from there to a forced exit
  };

  explicit ShutdownSignal(Handlers handlers);
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // Asks for a shutdown without a time as a lame duck. May be called from any thread.
  void Raise();

  // Returns when the graceful shutdown is to start.
  void Wait();

 private:
  void Run();
  bool stopping() const;

  const Handlers handlers_;
  mutable Mutex mutex_;
  CondVar started_;
  bool has_started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_
