#include "server/telemetry/tenant_metrics.h"

#include "server/telemetry/series.h"

namespace chorale {

const TenantSeries& TenantMetrics::Of(const std::string& tenant) {
  MutexLock lock(&mutex_);
  auto found = series_.find(tenant);
  if (found != series_.end()) return found->second;
  const std::string name = series_.size() < kMaxTenants ? tenant : "other";
  found = series_.find(name);
  if (found == series_.end()) found = series_.emplace(name, Make(name)).first;
  return found->second;
}

TenantSeries TenantMetrics::Make(const std::string& tenant) const {
  TenantSeries series;
  for (size_t method = 0; method < kMethodNames.size(); ++method) {
    series.requests[method] = AddCounter(registry_, "chorale_tenant_requests_total",
                                         {{"tenant", tenant}, {"method", kMethodNames[method]}});
  }
  series.values = AddCounter(registry_, "chorale_tenant_values_total", {{"tenant", tenant}});
  series.engine_seconds =
      AddCounter(registry_, "chorale_tenant_engine_seconds_total", {{"tenant", tenant}});
  series.inflight = AddGauge(registry_, "chorale_tenant_inflight_requests", {{"tenant", tenant}});
  for (size_t quota = 0; quota < kQuotaNames.size(); ++quota) {
    series.quota_refusals[quota] = AddCounter(registry_, "chorale_tenant_quota_refusals_total",
                                              {{"tenant", tenant}, {"quota", kQuotaNames[quota]}});
  }
  return series;
}

}  // namespace chorale
