// Handles SIGTERM and SIGINT on a dedicated thread: no code runs in a signal handler.
#ifndef CHORALE_SERVER_PROCESS_SHUTDOWN_SIGNAL_H_
#define CHORALE_SERVER_PROCESS_SHUTDOWN_SIGNAL_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"

namespace chorale {

// SIGTERM requests a shutdown. It begins with the lame-duck period: the server reports that it is
// not ready, so that load balancers stop sending calls, and still serves. Then the graceful
// shutdown and a timer start. A repeated SIGTERM has no effect: orchestrators, wrappers and
// `timeout` repeat it.
//
// SIGINT comes from an operator at a terminal. The first SIGINT requests the shutdown as well, and
// skips or ends the lame-duck period. The second SIGINT makes the shutdown immediate; the third
// ends the process immediately with exit status 1, as the timer does. Several SIGINTs within
// kOnePress count as one, because a terminal and a wrapper may both pass on the same Ctrl-C.
//
// Create it before any other thread: it blocks the signals for the calling thread, and new threads
// inherit that. Only the creating thread may call Wait and the destructor.
class ShutdownSignal {
 public:
  static constexpr absl::Duration kOnePress = absl::Milliseconds(20);

  // Called on the signal thread, except `hurry`.
  struct Handlers {
    // A shutdown was requested; it begins after this time.
    std::function<void(absl::Duration lame_duck)> first;
    std::function<void()> repeated;  // the first repeated SIGTERM
    std::function<void()> hurry;     // at most once, on its own thread: it may wait
    absl::Duration lame_duck;        // from SIGTERM to the graceful shutdown; may be 0
    absl::Duration limit;            // from there to a forced exit
  };

  explicit ShutdownSignal(Handlers handlers);
  // Waits for the handlers.
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // Requests a shutdown without a lame-duck period. May be called from any thread.
  void Raise();

  // Returns when the graceful shutdown must start.
  void Wait();

 private:
  enum class Event { kTerminate, kInterrupt, kRaised, kTimeout, kStop };

  void Run();
  // Returns false if the object is destroyed meanwhile.
  bool BeLameDuck();
  void StartShutdown();
  // Until the object is destroyed.
  void WatchShutdown();
  // `deadline` is a time of Clock::Real().
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
  absl::Time interrupted_ = absl::InfinitePast();  // the time of the last SIGINT
  bool noted_repeated_ = false;

  Mutex mutex_;
  CondVar started_;
  bool has_started_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_PROCESS_SHUTDOWN_SIGNAL_H_
