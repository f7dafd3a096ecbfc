// The server's metrics, exported to Prometheus: events as they happen. StateCollector reads the
// current state at a scrape.
#ifndef CHORALE_SERVER_TELEMETRY_PROMETHEUS_METRICS_H_
#define CHORALE_SERVER_TELEMETRY_PROMETHEUS_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "engine/api/metrics_sink.h"
#include "server/telemetry/method.h"
#include "server/telemetry/tenant_metrics.h"

namespace chorale {

// Labels have a bounded set of values (methods, codes, reasons, models, the first tenants), never
// contexts. All series but those of models and tenants exist from the start with value 0, so that
// rates are right from the first event on; models are announced.
//
// Thread-safe; updates are a few atomic operations or a short lock.
class PrometheusMetrics : public MetricsSink {
 public:
  PrometheusMetrics();
  ~PrometheusMetrics() override;

  // --- From the engine ----------------------------------------------------------------------
  void QueueTime(absl::Duration time) override;
  void TimeToFirstStep(absl::Duration time) override;
  void Rejected(const char* reason) override;
  void UnreadStream() override { StalledStreams(1); }
  void Values(WorkKind kind, const std::string& tenant, const std::string& model,
              int64_t count) override;
  void Flops(WorkKind kind, double flops) override;
  void EngineTime(const std::string& tenant, absl::Duration time) override;
  void StepTimes(absl::Duration each, int64_t count) override;
  void TickTime(absl::Duration time, int64_t slices) override;
  void SummaryTime(absl::Duration time) override;
  void EncodeTime(absl::Duration time) override;
  void EncodedRows(const std::string& model, int64_t rows) override;
  void MemorySetKeys(MemoryPolicy policy, int64_t keys) override;
  void RestoreTime(absl::Duration time) override;
  void Lookup(ContextLookup result) override;
  void Eviction(EvictionReason reason) override;
  void AppendedRows(int64_t rows) override;
  void EncodedAnew(EncodedAnewOutcome outcome) override;

  // --- From the server ----------------------------------------------------------------------
  void RequestBegun(Method method, const std::string& tenant);
  void RequestDone(Method method, const std::string& tenant, absl::StatusCode code,
                   absl::Duration duration);
  // A call was rejected; `quota` is one of kQuotaNames.
  void QuotaExceeded(Method method, const std::string& tenant, const std::string& quota);
  void StreamStarted();
  void StreamEnded();
  void StalledStreams(int64_t count);
  void SpansDropped(int64_t count);
  // `reason` is a reason of chorale_connections_refused_total.
  void ConnectionRefused(const char* reason);
  // `reason` is a reason of chorale_connections_ended_total.
  void ConnectionsEnded(const char* reason, int64_t count);
  // Creates the series of the model.
  void ModelServed(const std::string& model) { SeriesOfModel(model); }
  // The configuration was reloaded; `ok`: and applied.
  void ConfigReloaded(bool ok);

  // For the HTTP endpoint.
  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

 private:
  static constexpr int kCodes = 17;      // the canonical status codes
  static constexpr int kFlopKinds = 5;   // of WorkKind, all but copies
  static constexpr int kMaxModels = 50;  // with series of their own

  struct ModelSeries {
    std::array<prometheus::Counter*, kFlopKinds> values;  // null for work without values
    prometheus::Counter* encoded_rows;
  };
  // The series of "other" if there are already too many models.
  const ModelSeries& SeriesOfModel(const std::string& model);

  // Everything below is owned by the registry and constant after construction, except the maps.
  const std::shared_ptr<prometheus::Registry> registry_;
  TenantMetrics tenants_;
  std::array<std::array<prometheus::Counter*, kCodes>, kMethodNames.size()> requests_;
  std::array<prometheus::Counter*, kMethodNames.size()> quota_refusals_;
  std::array<prometheus::Histogram*, kMethodNames.size()> request_duration_;
  std::array<prometheus::Gauge*, kMethodNames.size()> inflight_;
  std::map<std::string, prometheus::Counter*, std::less<>> rejected_;  // by reason
  std::array<prometheus::Counter*, kFlopKinds> flops_;
  prometheus::Histogram* queue_;
  prometheus::Histogram* first_step_;
  prometheus::Histogram* step_;
  prometheus::Histogram* tick_;
  prometheus::Histogram* tick_slices_;
  prometheus::Histogram* summary_;
  prometheus::Histogram* encode_;
  prometheus::Histogram* restore_;
  std::array<prometheus::Counter*, 4> lookups_;    // by ContextLookup
  std::array<prometheus::Counter*, 4> evictions_;  // by EvictionReason
  std::map<MemoryPolicy, prometheus::Counter*> memory_set_keys_;
  prometheus::Counter* appends_;
  prometheus::Counter* appended_rows_;
  std::array<prometheus::Counter*, 3> encodings_anew_;  // by EncodedAnewOutcome
  prometheus::Counter* stalled_streams_;
  prometheus::Counter* reloads_ok_;
  prometheus::Counter* reloads_failed_;
  prometheus::Gauge* last_reload_ok_;
  prometheus::Counter* spans_dropped_;
  std::map<std::string, prometheus::Counter*, std::less<>> connections_refused_;  // by reason
  std::map<std::string, prometheus::Counter*, std::less<>> connections_ended_;    // by reason
  prometheus::Gauge* streams_live_;

  Mutex mutex_;
  std::map<std::string, ModelSeries> models_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_PROMETHEUS_METRICS_H_
