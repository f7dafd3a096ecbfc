// The server's metrics, exported to Prometheus.
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

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/metrics_sink.h"
#include "server/telemetry/method.h"

namespace chorale {

// A table in the .cc file has all names and help texts. Labels have a small, fixed set of values
// (methods, codes, reasons), never contexts or tenants. All series exist from the start with value
// 0, so that rates are right from the first event on.
//
// Thread-safe; updates are a few atomic operations or a short lock.
class PrometheusMetrics : public MetricsSink {
 public:
  PrometheusMetrics();
  ~PrometheusMetrics() override;

  // --- From the engine ----------------------------------------------------------------------
  void QueueTime(absl::Duration time) override;
  void TimeToFirstStep(absl::Duration time) override;
  void StepTimes(absl::Duration each, int64_t count) override;
  void TickTime(absl::Duration time, int64_t slices) override;
  void EncodeTime(absl::Duration time) override;
  void RestoreTime(absl::Duration time) override;
  void Eviction() override;
  void Rejected(const char* reason) override;
  void PathSteps(int64_t count) override;
  void ResidentContexts(int64_t count, int64_t bytes) override;
  void BufferBytes(int64_t in_use) override;
  void Sessions(int64_t running, int64_t queued) override;

  // --- From the server ----------------------------------------------------------------------
  void RequestDone(Method method, absl::StatusCode code, absl::Duration duration);
  void StreamStarted();
  void StreamEnded();
  void StalledStreams(int64_t count);
  void PoolBytes(int64_t context_pool, int64_t buffer_pool);
  void BuildInfo(absl::string_view version, absl::string_view backend);

  // For the HTTP endpoint.
  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

 private:
  static constexpr int kCodes = 17;  // the canonical status codes

  prometheus::Counter* AddCounter(const char* name, const prometheus::Labels& labels = {});
  prometheus::Gauge* AddGauge(const char* name, const prometheus::Labels& labels = {});
  prometheus::Histogram* AddHistogram(const char* name, const prometheus::Labels& labels = {});

  // Everything below is owned by the registry and constant after construction.
  const std::shared_ptr<prometheus::Registry> registry_;
  std::array<std::array<prometheus::Counter*, kCodes>, kMethodNames.size()> requests_;
  std::array<prometheus::Histogram*, kMethodNames.size()> request_duration_;
  std::map<std::string, prometheus::Counter*, std::less<>> rejected_;  // by reason
  prometheus::Histogram* queue_;
  prometheus::Histogram* first_step_;
  prometheus::Histogram* step_;
  prometheus::Histogram* tick_;
  prometheus::Histogram* tick_slices_;
  prometheus::Histogram* encode_;
  prometheus::Histogram* restore_;
  prometheus::Counter* evictions_;
  prometheus::Counter* path_steps_;
  prometheus::Counter* stalled_streams_;
  prometheus::Gauge* resident_contexts_;
  prometheus::Gauge* context_bytes_;
  prometheus::Gauge* context_pool_bytes_;
  prometheus::Gauge* buffer_bytes_;
  prometheus::Gauge* buffer_pool_bytes_;
  prometheus::Gauge* sessions_running_;
  prometheus::Gauge* sessions_queued_;
  prometheus::Gauge* streams_live_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_PROMETHEUS_METRICS_H_
