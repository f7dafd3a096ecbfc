// SIGTERM and SIGINT, taken by a thread of their own: no code runs in a signal handler.
#ifndef CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_
#define CHORALE_SERVER_LIFECYCLE_SHUTDOWN_SIGNAL_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// The first signal asks for an orderly end, the second one for a quick one, and the third one ends
// the process on the spot with status 1, as does the time limit that the first one starts.
//
// Make it before any other thread: it blocks the signals for the calling thread, and threads take
// over what their creator blocks. Wait and the destructor belong to the thread that made it.
class ShutdownSignal {
 public:
  struct Handlers {
    std::function<void()> first;  // both on the signal thread
    std::function<void()> second;
    absl::Duration limit;  // from the first signal to a forced end
  };

  explicit ShutdownSignal(Handlers handlers);
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // As if a signal came; from any thread.
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
