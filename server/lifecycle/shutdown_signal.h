// Handles SIGTERM and SIGINT on a dedicated thread: no code runs in a signal handler.
#ifndef CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_
#define CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"

namespace chorale {

// SIGTERM asks for a shutdown. First comes the time as a lame duck: load balancers learn that the
// server will go, and it still serves. Then the graceful shutdown and a timer start. Another
// SIGTERM changes nothing: orchestrators, wrappers and `timeout` repeat it.
//
// SIGINT comes from somebody at a terminal. The first one asks as well, and skips or ends the time
// as a lame duck. The second one makes the shutdown immediate; one more ends the process at once,
// with exit status 1, and so does the timer. Those that come within kOnePress of another are the
// same press of Ctrl-C, which a terminal and a wrapper have both passed on.
//
// Create it before any other thread: it blocks the signals for the calling thread, and new threads
// inherit that. Only the creating thread may call Wait and the destructor.
class ShutdownSignal {
 public:
  static constexpr absl::Duration kOnePress = absl::Milliseconds(20);

  // Called on the signal thread, but for `hurry`.
  struct Handlers {
    // A shutdown was asked for; it begins in so long.
    std::function<void(absl::Duration lame_duck)> first;
    std::function<void()> repeated;  // the first SIGTERM that changes nothing
    std::function<void()> hurry;     // at most once, on a thread of its own: it may wait
    absl::Duration lame_duck;        // from SIGTERM to the graceful shutdown; may be 0
    absl::Duration limit;            // from there to a forced exit
  };

  explicit ShutdownSignal(Handlers handlers);
  // Waits for the handlers.
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // Asks for a shutdown without a time as a lame duck. May be called from any thread.
  void Raise();

  // Returns when the graceful shutdown is to start.
  void Wait();

 private:
  enum class Event { kTerminate, kInterrupt, kRaised, kTimeout, kStop };

  void Run();
  // Returns false if the object is destroyed meanwhile.
  bool BeLameDuck();
  void StartShutdown();
  // Until the object is destroyed.
  void WatchShutdown();
  // `deadline` is monotonic.
  Event Next(absl::Time deadline);
  void NoteRepeated();
  void Wake() const;

  const Handlers handlers_;
  const FileDescriptor signals_;  // a signalfd
  const FileDescriptor wake_;     // an eventfd
  std::atomic<bool> raised_{false};
  std::atomic<bool> stopping_{false};

  // The thread's own.
  int interrupts_ = 0;
  absl::Time interrupted_ = absl::InfinitePast();  // monotonic: when the last one came
  bool noted_repeated_ = false;

  Mutex mutex_;
  CondVar started_;
  bool has_started_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_
