#include "server/telemetry/prometheus_metrics.h"

#include <algorithm>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/telemetry/metric_catalog.h"
#include "server/telemetry/series.h"

namespace chorale {
namespace {

// The reasons of the engine and the server. Any other reason counts as "other".
constexpr const char* kReasons[] = {
    "queue_full",          "queue_timeout",       "backlog",      "draining", "backend_failed",
    "registration_memory", "blocking_queue_full", "reply_memory", "other"};

// Of the listener.
constexpr const char* kConnectionRefusals[] = {"max_connections", "max_connections_per_peer",
                                               "no_file_descriptor"};

// Of WorkKind, in its order.
constexpr std::array<const char*, 5> kWorkNames = {"encode", "rows", "decode", "density",
                                                   "predict"};
constexpr std::array<const char*, 5> kMethodOfWork = {nullptr, nullptr, "Sample", "LogDensity",
                                                      "Predict"};

// In the order of the enums.
constexpr const char* kLookups[] = {"hit", "host_hit", "disk_hit", "miss"};
constexpr const char* kEvictions[] = {"saved_to_host", "dropped", "host_pool_full",
                                      "model_unloaded"};

constexpr const char* kEncodedAnewOutcomes[] = {"replaced", "changed", "failed"};

}  // namespace

PrometheusMetrics::PrometheusMetrics()
    : registry_(std::make_shared<prometheus::Registry>()), tenants_(registry_.get()) {
  prometheus::Registry* const r = registry_.get();
  for (size_t method = 0; method < kMethodNames.size(); ++method) {
    const std::string name = kMethodNames[method];
    for (int code = 0; code < kCodes; ++code) {
      requests_[method][code] =
          AddCounter(r, "chorale_requests_total",
                     {{"method", name},
                      {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}});
    }
    quota_refusals_[method] = AddCounter(r, "chorale_quota_refusals_total", {{"method", name}});
    request_duration_[method] =
        AddHistogram(r, "chorale_request_duration_seconds", {{"method", name}});
    inflight_[method] = AddGauge(r, "chorale_inflight_requests", {{"method", name}});
  }
  for (const char* reason : kReasons) {
    rejected_[reason] = AddCounter(r, "chorale_rejected_total", {{"reason", reason}});
  }
  for (size_t kind = 0; kind < kWorkNames.size(); ++kind) {
    flops_[kind] = AddCounter(r, "chorale_flops_total", {{"work", kWorkNames[kind]}});
  }
  queue_ = AddHistogram(r, "chorale_queue_seconds");
  first_step_ = AddHistogram(r, "chorale_time_to_first_step_seconds");
  step_ = AddHistogram(r, "chorale_step_seconds");
  tick_ = AddHistogram(r, "chorale_tick_seconds");
  tick_slices_ = AddHistogram(r, "chorale_tick_slices");
  summary_ = AddHistogram(r, "chorale_summary_seconds");
  encode_ = AddHistogram(r, "chorale_encode_seconds");
  restore_ = AddHistogram(r, "chorale_restore_seconds");
  for (size_t i = 0; i < lookups_.size(); ++i) {
    lookups_[i] = AddCounter(r, "chorale_context_lookups_total", {{"result", kLookups[i]}});
    evictions_[i] = AddCounter(r, "chorale_evictions_total", {{"reason", kEvictions[i]}});
  }
  for (const MemoryPolicy policy : kMemoryPolicies) {
    memory_set_keys_[policy] =
        AddCounter(r, "chorale_memory_set_keys_total", {{"policy", MemoryPolicyName(policy)}});
  }
  appends_ = AddCounter(r, "chorale_appends_total");
  appended_rows_ = AddCounter(r, "chorale_appended_rows_total");
  for (size_t i = 0; i < encodings_anew_.size(); ++i) {
    encodings_anew_[i] =
        AddCounter(r, "chorale_encodings_anew_total", {{"outcome", kEncodedAnewOutcomes[i]}});
  }
  stalled_streams_ = AddCounter(r, "chorale_stalled_streams_total");
  streams_live_ = AddGauge(r, "chorale_streams_live");
  reloads_ok_ = AddCounter(r, "chorale_config_reloads_total", {{"result", "ok"}});
  reloads_failed_ = AddCounter(r, "chorale_config_reloads_total", {{"result", "error"}});
  last_reload_ok_ = AddGauge(r, "chorale_config_last_reload_successful");
  last_reload_ok_->Set(1);  // the start was
  spans_dropped_ = AddCounter(r, "chorale_spans_dropped_total");
  for (const char* reason : kConnectionRefusals) {
    connections_refused_[reason] =
        AddCounter(r, "chorale_connections_refused_total", {{"reason", reason}});
  }
  for (const char* reason : {"memory", "flood"}) {
    connections_ended_[reason] =
        AddCounter(r, "chorale_connections_ended_total", {{"reason", reason}});
  }
}

PrometheusMetrics::~PrometheusMetrics() = default;

const PrometheusMetrics::ModelSeries& PrometheusMetrics::SeriesOfModel(const std::string& model) {
  MutexLock lock(&mutex_);
  auto found = models_.find(model);
  if (found != models_.end()) return found->second;
  const std::string name = models_.size() < kMaxModels ? model : "other";
  found = models_.find(name);
  if (found != models_.end()) return found->second;
  ModelSeries series = {};
  for (int kind = 0; kind < kFlopKinds; ++kind) {
    if (kMethodOfWork[kind] == nullptr) continue;
    series.values[kind] = AddCounter(registry_.get(), "chorale_values_total",
                                     {{"method", kMethodOfWork[kind]}, {"model", name}});
  }
  series.encoded_rows =
      AddCounter(registry_.get(), "chorale_encoded_rows_total", {{"model", name}});
  return models_.emplace(name, series).first->second;
}

// ---- From the engine -----------------------------------------------------------------------

void PrometheusMetrics::QueueTime(absl::Duration time) {
  queue_->Observe(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::TimeToFirstStep(absl::Duration time) {
  first_step_->Observe(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::Rejected(const char* reason) {
  auto it = rejected_.find(absl::string_view(reason));
  if (it == rejected_.end()) it = rejected_.find(absl::string_view("other"));
  it->second->Increment();
}

void PrometheusMetrics::Values(WorkKind kind, const std::string& tenant, const std::string& model,
                               int64_t count) {
  prometheus::Counter* const values = SeriesOfModel(model).values.at(static_cast<size_t>(kind));
  if (values != nullptr) values->Increment(static_cast<double>(count));
  tenants_.Of(tenant).values->Increment(static_cast<double>(count));
}

void PrometheusMetrics::Flops(WorkKind kind, double flops) {
  flops_.at(static_cast<size_t>(kind))->Increment(flops);
}

void PrometheusMetrics::EngineTime(const std::string& tenant, absl::Duration time) {
  tenants_.Of(tenant).engine_seconds->Increment(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::StepTimes(absl::Duration each, int64_t count) {
  const HistogramBuckets& limits = StepSecondsBuckets();
  const double seconds = absl::ToDoubleSeconds(each);
  // A tick may have thousands of steps: one bulk observation is cheaper.
  std::vector<double> observations(limits.size() + 1);  // the last one is the +Inf bucket
  const auto bucket = std::lower_bound(limits.begin(), limits.end(), seconds);
  observations[bucket - limits.begin()] = static_cast<double>(count);
  step_->ObserveMultiple(observations, seconds * static_cast<double>(count));
}

void PrometheusMetrics::TickTime(absl::Duration time, int64_t slices) {
  tick_->Observe(absl::ToDoubleSeconds(time));
  tick_slices_->Observe(static_cast<double>(slices));
}

void PrometheusMetrics::SummaryTime(absl::Duration time) {
  summary_->Observe(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::EncodeTime(absl::Duration time) {
  encode_->Observe(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::EncodedRows(const std::string& model, int64_t rows) {
  SeriesOfModel(model).encoded_rows->Increment(static_cast<double>(rows));
}

void PrometheusMetrics::MemorySetKeys(MemoryPolicy policy, int64_t keys) {
  memory_set_keys_.at(policy)->Increment(static_cast<double>(keys));
}

void PrometheusMetrics::RestoreTime(absl::Duration time) {
  restore_->Observe(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::Lookup(ContextLookup result) {
  lookups_[static_cast<size_t>(result)]->Increment();
}

void PrometheusMetrics::Eviction(EvictionReason reason) {
  evictions_[static_cast<size_t>(reason)]->Increment();
}

void PrometheusMetrics::AppendedRows(int64_t rows) {
  appends_->Increment();
  appended_rows_->Increment(static_cast<double>(rows));
}

void PrometheusMetrics::EncodedAnew(EncodedAnewOutcome outcome) {
  encodings_anew_[static_cast<size_t>(outcome)]->Increment();
}

// ---- From the server -----------------------------------------------------------------------

void PrometheusMetrics::RequestBegun(Method method, const std::string& tenant) {
  inflight_[static_cast<int>(method)]->Increment();
  tenants_.Of(tenant).inflight->Increment();
}

void PrometheusMetrics::RequestDone(Method method, const std::string& tenant, absl::StatusCode code,
                                    absl::Duration duration) {
  const int number = static_cast<int>(code);
  const int known =
      number >= 0 && number < kCodes ? number : static_cast<int>(absl::StatusCode::kUnknown);
  requests_[static_cast<int>(method)][known]->Increment();
  request_duration_[static_cast<int>(method)]->Observe(absl::ToDoubleSeconds(duration));
  inflight_[static_cast<int>(method)]->Decrement();
  const TenantSeries& series = tenants_.Of(tenant);
  series.requests[static_cast<int>(method)]->Increment();
  series.inflight->Decrement();
}

void PrometheusMetrics::QuotaExceeded(Method method, const std::string& tenant,
                                      const std::string& quota) {
  const auto* const name = std::find(kQuotaNames.begin(), kQuotaNames.end(), quota);
  if (name == kQuotaNames.end()) return;
  quota_refusals_[static_cast<int>(method)]->Increment();
  tenants_.Of(tenant).quota_refusals.at(name - kQuotaNames.begin())->Increment();
}

void PrometheusMetrics::StreamStarted() { streams_live_->Increment(); }
void PrometheusMetrics::StreamEnded() { streams_live_->Decrement(); }

void PrometheusMetrics::StalledStreams(int64_t count) {
  stalled_streams_->Increment(static_cast<double>(count));
}

void PrometheusMetrics::ConnectionRefused(const char* reason) {
  const auto found = connections_refused_.find(absl::string_view(reason));
  if (found != connections_refused_.end()) found->second->Increment();
}

void PrometheusMetrics::ConnectionsEnded(const char* reason, int64_t count) {
  const auto found = connections_ended_.find(absl::string_view(reason));
  if (found != connections_ended_.end()) found->second->Increment(static_cast<double>(count));
}

void PrometheusMetrics::SpansDropped(int64_t count) {
  spans_dropped_->Increment(static_cast<double>(count));
}

void PrometheusMetrics::ConfigReloaded(bool ok) {
  (ok ? reloads_ok_ : reloads_failed_)->Increment();
  last_reload_ok_->Set(ok ? 1 : 0);
}

}  // namespace chorale
