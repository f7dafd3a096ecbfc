// The slots of the queue (*places* in the code), divided fairly between clients.
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

// A request holds a slot from its arrival until it is admitted or ends. Any client may take a free
// slot. If no slot is free, a client below its fair share takes the slot of the youngest request of
// the client that is furthest above its fair share; requests of other clients are rejected. A fair
// share is the client's part of the weights of all clients with slots, and at least one slot.
//
// Thread-safe.
class QueuePlaces {
 public:
  explicit QueuePlaces(int64_t places) : places_(places) {}  // positive

  // Takes a slot. Returns false if the request is rejected. If another request is displaced, sets
  // its CallControl::displaced; that request no longer holds a slot.
  bool TryEnter(uint64_t id, const ClientShare& share, std::shared_ptr<CallControl> control);
  // Releases the slot. No-op for a request without a slot, such as a displaced request.
  void Leave(uint64_t id);

  int64_t taken() const;
  int64_t clients() const;  // with slots

 private:
  struct Place {
    uint64_t id = 0;
    std::shared_ptr<CallControl> control;
  };
  struct Client {
    double weight = 1;
    std::list<Place> places;  // the youngest is last
  };
  using Clients = std::map<std::string, Client>;

  double FairShare(double weight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees a slot for a client that holds `held` slots. Returns false if the client may displace no
  // request.
  bool Displace(double weight, int64_t held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(Clients::iterator client, std::list<Place>::iterator place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t places_;
  mutable Mutex mutex_;
  Clients clients_ ABSL_GUARDED_BY(mutex_);  // clients with slots
  std::unordered_map<uint64_t, Clients::iterator> client_of_ ABSL_GUARDED_BY(mutex_);
  double weight_ ABSL_GUARDED_BY(mutex_) = 0;  // of the clients with slots
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_QUEUE_PLACES_H_
