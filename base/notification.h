// A one-time event that threads can wait for.
#ifndef CHORALE_BASE_NOTIFICATION_H_
#define CHORALE_BASE_NOTIFICATION_H_

#include "base/mutex.h"

namespace chorale {

// Thread-safe. The waiting thread may destroy it as soon as Wait returns.
class Notification {
 public:
  void Notify() {
    MutexLock lock(&mutex_);
    happened_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(&mutex_);
    while (!happened_) changed_.Wait(&mutex_);
  }
  bool HasBeenNotified() const {
    MutexLock lock(&mutex_);
    return happened_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool happened_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace chorale

#endif  // CHORALE_BASE_NOTIFICATION_H_
