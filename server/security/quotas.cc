#include "server/security/quotas.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"

namespace chorale {

Quotas::CallSlot& Quotas::CallSlot::operator=(CallSlot&& other) noexcept {
  std::swap(calls_, other.calls_);
  return *this;
}

Quotas::CallSlot::~CallSlot() {
  if (calls_ != nullptr) --*calls_;
}

absl::StatusOr<Quotas::CallSlot> Quotas::BeginCall(const Caller& caller,
                                                   absl::Duration retry_delay) {
  std::shared_ptr<std::atomic<int64_t>> calls;
  {
    MutexLock lock(&mutex_);
    calls = usage_[caller.tenant].calls;
  }
  CallSlot slot(calls);
  const int64_t quota = caller.policy.quotas.concurrent_calls;
  if (++*calls <= quota || quota == 0) return slot;
  return QuotaExceeded("max_concurrent_calls",
                       absl::StrCat("the tenant's quota is ", quota, " concurrent calls"),
                       retry_delay);
}

absl::StatusOr<absl::Duration> Quotas::TakeValues(const Caller& caller, int64_t values,
                                                  absl::Time now) {
  constexpr absl::Duration kBurst = absl::Seconds(1);
  const int64_t rate = caller.policy.quotas.values_per_second;
  if (rate == 0 || values <= 0) return absl::ZeroDuration();
  constexpr int64_t kMostValues = int64_t{1} << 40;
  const absl::Duration cost = absl::Seconds(std::min(values, kMostValues)) / rate;
  MutexLock lock(&mutex_);
  absl::Time& until = usage_[caller.tenant].values_until;
  const absl::Time begin = std::max(until, now);
  const absl::Duration delay = begin + std::min(cost, kBurst) - (now + kBurst);
  if (delay > absl::ZeroDuration()) {
    // Rounded up to what the answer can say: a client that waits for so long is accepted.
    return QuotaExceeded("max_values_per_second",
                         absl::StrCat("the tenant's quota is ", rate,
                                      " values per second, which its recent calls have used up"),
                         absl::Ceil(delay, absl::Nanoseconds(1)));
  }
  until = begin + cost;
  return cost;
}

void Quotas::Refund(const Caller& caller, absl::Duration taken) {
  if (taken <= absl::ZeroDuration()) return;
  MutexLock lock(&mutex_);
  usage_[caller.tenant].values_until -= taken;
}

}  // namespace chorale
