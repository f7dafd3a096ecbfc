// What each tenant uses of its quotas of calls and values.
#ifndef CHORALE_SERVER_SECURITY_QUOTAS_H_
#define CHORALE_SERVER_SECURITY_QUOTAS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/security/caller.h"

namespace chorale {

// The quotas that calls themselves use up; the store and the cache of contexts hold those of
// contexts and bytes. Refusals are of base/error_details' QuotaExceeded.
//
// Thread-safe.
class Quotas {
 public:
  // Counts as one of its tenant's calls until it is destroyed. Movable; thread-compatible.
  class CallSlot {
   public:
    CallSlot() = default;
    explicit CallSlot(std::shared_ptr<std::atomic<int64_t>> calls) : calls_(std::move(calls)) {}
    CallSlot(CallSlot&& other) noexcept : calls_(std::move(other.calls_)) {}
    CallSlot& operator=(CallSlot&& other) noexcept;
    ~CallSlot();

   private:
    std::shared_ptr<std::atomic<int64_t>> calls_;  // null: counts nothing
  };

  // The error has `retry_delay`: when another call of the tenant ends cannot be known.
  absl::StatusOr<CallSlot> BeginCall(const Caller& caller, absl::Duration retry_delay);

  // Takes `values` of the tenant's values per second; `now` is monotonic. A tenant that rested may
  // take a second's worth at once. A request for more than that is accepted by a tenant that has
  // rested for a second, which then waits until the rate is what it should be; `values` beyond 2^40
  // count as so many. The error has the
  // exact delay after which the same request is accepted if the tenant makes no other meanwhile.
  // Returns what Refund takes.
  absl::StatusOr<absl::Duration> TakeValues(const Caller& caller, int64_t values, absl::Time now);
  // Gives back what was taken for a call that was refused before any work.
  void Refund(const Caller& caller, absl::Duration taken);

 private:
  struct Usage {
    std::shared_ptr<std::atomic<int64_t>> calls = std::make_shared<std::atomic<int64_t>>(0);
    // When the values taken so far would be through at the tenant's rate.
    absl::Time values_until = absl::InfinitePast();
  };

  Mutex mutex_;
  std::map<std::string, Usage> usage_ ABSL_GUARDED_BY(mutex_);  // by tenant
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_QUOTAS_H_
