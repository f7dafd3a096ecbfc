// The places of the queue, divided fairly between clients.
#ifndef CHORALE_ENGINE_SCHEDULING_QUEUE_PLACES_H_
#define CHORALE_ENGINE_SCHEDULING_QUEUE_PLACES_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "engine/api/call_context.h"
#include "engine/session/call_control.h"

namespace chorale {

// A request holds a place from its arrival until it is admitted or ends. A client may take any that
// is free. When none is, a client that holds less than its fair share displaces the youngest
// request of the client that holds most of all beyond its own; others are refused. A fair share is
// the part of all places that the client's weight has among the clients that hold any, at least one
// place.
//
// Thread-safe.
class QueuePlaces {
 public:
  explicit QueuePlaces(int64_t places) : places_(places) {}  // positive

  // False if the request is refused. It displaces another by setting CallControl::displaced; that
  // one's place is gone from then on.
  bool TryEnter(uint64_t id, const ClientShare& share, std::shared_ptr<CallControl> control);
  // Gives the place back. No-op for a request that holds none, such as a displaced one.
  void Leave(uint64_t id);

  int64_t taken() const;
  int64_t clients() const;  // that hold places

 private:
  struct Place {
    uint64_t id = 0;
    std::shared_ptr<CallControl> control;
  };
  struct Client {
    double weight = 1;
    std::list<Place> places;  // the youngest last
  };
  using Clients = std::map<std::string, Client>;

  double FairShare(double weight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees a place for a client that now has `held`; false if it may displace none.
  bool Displace(double weight, int64_t held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(Clients::iterator client, std::list<Place>::iterator place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t places_;
  mutable Mutex mutex_;
  Clients clients_ ABSL_GUARDED_BY(mutex_);  // that hold places
  std::unordered_map<uint64_t, Clients::iterator> client_of_ ABSL_GUARDED_BY(mutex_);
  double weight_ ABSL_GUARDED_BY(mutex_) = 0;  // of the clients that hold places
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_QUEUE_PLACES_H_
