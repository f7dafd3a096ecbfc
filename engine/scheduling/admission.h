// Which waiting requests may start: the buffer pool and the places of running requests, divided
// fairly between clients. No threads, no clock, no memory of its own: it counts.
#ifndef CHORALE_ENGINE_SCHEDULING_ADMISSION_H_
#define CHORALE_ENGINE_SCHEDULING_ADMISSION_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/api/call_context.h"

namespace chorale {

// Dominant resource fairness (Ghodsi et al., NSDI 2011) over two resources, bytes of the buffer
// pool and places of running requests. A client's usage is what it holds of the pool or of the
// places, whichever is the larger part, by its weight. Its fair share of a resource is the part
// that its weight has among the clients that hold or wait for something.
//
//   1. The client with the least usage is served first; of a client's own requests, the oldest if
//      it has waited for `patience`, then the one with the least work. A request that does not fit
//      holds back only later ones of its client, and of those only the ones that need bytes.
//   2. While a client with less usage waits, a client gets no more than its fair share. One request
//      may always be larger than that, if its client holds nothing else.
//   3. An eighth of both resources is kept for small requests: as long as those of a client hold no
//      more than a thirty-second. So a small request starts at once, however much other clients
//      hold, or larger requests of its own client. A request that needs more than the other seven
//      eighths may use it as well.
//   4. A request that has waited for `patience`, and is within its client's fair share or its
//      client's only one, has what it needs reserved: others get what the pool has beyond that, and
//      small ones also the eighth of rule 3. One request at a time, the one that has waited
//      longest.
//
// Nothing that runs is taken back here; StarvedClient and OverShare say who could give back.
//
// Thread contract: not thread-safe; the engine thread owns every instance.
class Admission {
 public:
  struct Limits {
    int64_t pool_bytes = 0;
    int64_t max_running = 1;  // positive
    absl::Duration patience = absl::Seconds(2);
  };

  explicit Admission(const Limits& limits);

  // A request of `work` FLOPs waits from `since` on for `bytes` of buffers and a place; bytes may
  // be 0. REQUIRES: no request of this id waits or runs.
  void Wait(uint64_t id, const ClientShare& share, double work, int64_t bytes, absl::Time since);
  // A request no longer waits or runs. No-op for one that does neither.
  void Remove(uint64_t id);

  // Starts what may start, in the order of the rules. `start` takes the memory of the request:
  // false if the pool has no ranges of these sizes, as when its free memory is in pieces; the
  // request then waits on.
  void StartWhatFits(absl::Time now, absl::FunctionRef<bool(uint64_t id)> start);

  // The client for which rule 4 reserves; null when there is none. Valid until the next change.
  const std::string* StarvedClient(absl::Time now) const;
  // Whether the client holds more than its fair share of bytes or of places, and another waits.
  bool OverShare(absl::string_view client) const;
  // The part of all weights that the client has among those that hold or wait, 0 to 1.
  double PartOf(absl::string_view client) const;

  int64_t waiting() const { return waiting_; }
  // What the client that holds most has of the bytes or the places, whichever is more; 0 to 1.
  double largest_usage() const;

 private:
  struct Request {
    uint64_t id = 0;
    double work = 0;
    int64_t bytes = 0;
    absl::Time since;
  };
  struct Holding {
    int64_t bytes = 0;
    int64_t places = 0;

    void Add(int64_t more_bytes) {
      bytes += more_bytes;
      ++places;
    }
    void Remove(int64_t fewer_bytes) {
      bytes -= fewer_bytes;
      --places;
    }
  };
  struct Client {
    double weight = 1;
    Holding held;
    Holding small;             // the part of `held` that started as small requests
    std::list<Request> queue;  // by work, then by arrival
  };
  using Clients = std::map<std::string, Client, std::less<>>;
  struct Running {
    Clients::iterator client;
    int64_t bytes = 0;
    bool small = false;
  };
  struct Reservation {
    const Client* client = nullptr;  // null: there is none
    Request request;
  };

  double Usage(const Client& client) const;
  double WeightOfAll() const;
  bool WithinShare(const Client& client, int64_t bytes) const;
  // Whether a request for `bytes` is small; see rule 3.
  bool IsSmall(const Client& client, int64_t bytes) const;
  bool Entitled(const Client& client, int64_t bytes) const;
  // The end of its queue if none waits.
  static std::list<Request>::const_iterator OldestOf(const Client& client);
  Reservation Reserve(absl::Time now) const;
  bool FitsBeside(const Reservation& reserved, const Request& request, bool small) const;
  // Starts the first request of the client that may; false if none may. `behind`: one with less
  // usage waits for bytes.
  bool StartOne(Clients::iterator client, bool behind, const Reservation& reserved, absl::Time now,
                absl::FunctionRef<bool(uint64_t id)> start);
  void Forget(Clients::iterator client);

  const Limits limits_;
  const int64_t kept_bytes_;  // of rule 3
  const int64_t kept_places_;
  Clients clients_;  // that hold or wait
  std::unordered_map<uint64_t, Clients::iterator> waiting_of_;
  std::unordered_map<uint64_t, Running> running_of_;
  Holding held_;   // by all
  Holding small_;  // the part of it that started as small requests
  int64_t waiting_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_ADMISSION_H_
