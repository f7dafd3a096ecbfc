// The use of the server by each tenant, in a bounded number of series.
#ifndef CHORALE_SERVER_TELEMETRY_TENANT_METRICS_H_
#define CHORALE_SERVER_TELEMETRY_TENANT_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/telemetry/method.h"

namespace chorale {

// The quotas of a tenant, by their names in the tenant file.
inline constexpr std::array<const char*, 5> kQuotaNames = {
    "max_contexts", "max_dataset_mib", "max_resident_mib", "max_concurrent_calls",
    "max_values_per_second"};

// Counters and gauges of one tenant. Thread-safe, constant addresses.
struct TenantSeries {
  std::array<prometheus::Counter*, kMethodNames.size()> requests;
  prometheus::Counter* values;
  prometheus::Counter* engine_seconds;
  prometheus::Gauge* inflight;
  std::array<prometheus::Counter*, kQuotaNames.size()> quota_refusals;
};

// The first kMaxTenants tenants have their own series; all others share the series of "other". The
// series of a tenant never change, so that additions to a gauge and subtractions from it concern
// the same series.
//
// Thread-safe.
class TenantMetrics {
 public:
  static constexpr size_t kMaxTenants = 100;

  // `registry` outlives this.
  explicit TenantMetrics(prometheus::Registry* registry) : registry_(registry) {}

  // Lives as long as the registry.
  const TenantSeries& Of(const std::string& tenant);

 private:
  TenantSeries Make(const std::string& tenant) const;

  prometheus::Registry* const registry_;
  Mutex mutex_;
  std::map<std::string, TenantSeries> series_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_TENANT_METRICS_H_
