// Decides which waiting requests may start. Divides the buffer pool and the slots of running
// requests fairly between clients. Only does the accounting: it has no threads and no clock, and
// owns no memory.
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

// Implements dominant resource fairness (Ghodsi et al., NSDI 2011) over two resources: bytes of the
// buffer pool, and slots of running requests (*places* in the code). The usage of a client is its
// part of the bytes or its part of the slots, whichever is larger, divided by its weight. Its fair
// share of a resource is its part of the weights of all clients that hold or wait for something.
//
//   1. The client with the least usage is served first. Of its requests, the oldest is served first
//      if it has waited for `patience`; otherwise the request with the least work is. A request
//      that does not fit delays only later requests of the same client that need bytes.
//   2. While a client with less usage waits, a client gets no more than its fair share. A single
//      request may exceed the fair share if its client holds nothing else.
//   3. An eighth of both resources is kept for small requests. Requests of a client are small as
//      long as they hold no more than a thirty-second together. So a small request starts at once,
//      even if other clients, or larger requests of its own client, hold the rest. A request that
//      needs more than seven eighths may also use this part.
//   4. If a request has waited for `patience`, and it is within the fair share of its client or its
//      client holds nothing else, its resources are reserved. Other requests then get only the
//      resources beyond the reservation, and small requests also the eighth of rule 3. Only the
//      request that has waited longest has a reservation.
//
// Admission never ends a running request. StarvedClient and OverShare identify the clients whose
// requests may be ended.
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

  // Adds a request of `work` FLOPs that waits, from `since` on, for a slot and for `bytes` bytes of
  // buffers, which may be 0. REQUIRES: no request with this id waits or runs.
  void Wait(uint64_t id, const ClientShare& share, double work, int64_t bytes, absl::Time since);
  // Removes a waiting or running request. No-op for any other id.
  void Remove(uint64_t id);

  // Starts all requests that may start, in the order of the rules. `start` allocates the memory of
  // the request. It returns false if the pool has no ranges of these sizes, for example because its
  // free memory is fragmented; the request then continues to wait.
  void StartWhatFits(absl::Time now, absl::FunctionRef<bool(uint64_t id)> start);

  // Returns the client for which rule 4 reserves resources, or null. Valid until the next change.
  const std::string* StarvedClient(absl::Time now) const;
  // Returns true if the client holds more than its fair share of bytes or slots, and another client
  // waits.
  bool OverShare(absl::string_view client) const;
  // Returns the client's part of the weights of all clients that hold or wait for something, 0 to
  // 1. Returns 1 for an unknown client.
  double PartOf(absl::string_view client) const;

  int64_t waiting() const { return waiting_; }
  // Returns the largest part of the bytes or of the slots that a client holds, 0 to 1.
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
    Holding small;             // the part of `held` that started as small
    std::list<Request> queue;  // by work, then by arrival
  };
  using Clients = std::map<std::string, Client, std::less<>>;
  struct Running {
    Clients::iterator client;
    int64_t bytes = 0;
    bool small = false;
  };
  struct Reservation {
    const Client* client = nullptr;  // null: no reservation
    Request request;
  };

  double Usage(const Client& client) const;
  double WeightOfAll() const;
  bool WithinShare(const Client& client, int64_t bytes) const;
  // Returns true if a request for `bytes` is small; see rule 3.
  bool IsSmall(const Client& client, int64_t bytes) const;
  bool Entitled(const Client& client, int64_t bytes) const;
  // Returns the end of the queue if the queue is empty.
  static std::list<Request>::const_iterator OldestOf(const Client& client);
  Reservation Reserve(absl::Time now) const;
  bool FitsBeside(const Reservation& reserved, const Request& request, bool small) const;
  // Starts the first request of the client that may start. Returns false if none may start.
  // `behind`: another client with no more usage waits.
  bool StartOne(Clients::iterator client, bool behind, const Reservation& reserved, absl::Time now,
                absl::FunctionRef<bool(uint64_t id)> start);
  void Forget(Clients::iterator client);

  const Limits limits_;
  const int64_t kept_bytes_;  // for small requests, see rule 3
  const int64_t kept_places_;
  Clients clients_;  // clients that hold or wait for something
  std::unordered_map<uint64_t, Clients::iterator> waiting_of_;
  std::unordered_map<uint64_t, Running> running_of_;
  Holding held_;   // by all clients
  Holding small_;  // the part of `held_` that started as small
  int64_t waiting_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_ADMISSION_H_
