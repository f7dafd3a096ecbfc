// Tracks the quotas of calls and values of each tenant.
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

// Covers the quotas that calls consume; the store and the cache of contexts enforce the quotas of
// contexts and bytes. Errors are QuotaExceeded of base/error_details.h.
//
// Thread-safe.
class Quotas {
 public:
  // Counts as a call of its tenant until it is destroyed. Movable; thread-compatible.
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

  // The error contains `retry_delay`, because the end of another call of the tenant cannot be
  // predicted.
  absl::StatusOr<CallSlot> BeginCall(const Caller& caller, absl::Duration retry_delay);

  // Takes `values` of the tenant's values per second. After a rest, a tenant may take the values of
  // a second at once. A larger request is accepted if the tenant has rested for a second; the
  // tenant then waits until its rate is within the quota. `values` is limited to 2^40. The error
  // contains the exact delay after which the same request is accepted if the tenant makes no other
  // request meanwhile. Returns the argument of Refund.
  absl::StatusOr<absl::Duration> TakeValues(const Caller& caller, int64_t values, absl::Time now);
  // Refunds the values of a call that was rejected before any work.
  void Refund(const Caller& caller, absl::Duration taken);

 private:
  struct Usage {
    std::shared_ptr<std::atomic<int64_t>> calls = std::make_shared<std::atomic<int64_t>>(0);
    // The time at which the values taken so far are used up at the tenant's rate.
    absl::Time values_until = absl::InfinitePast();
  };

  Mutex mutex_;
  std::map<std::string, Usage> usage_ ABSL_GUARDED_BY(mutex_);  // by tenant
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_QUOTAS_H_
