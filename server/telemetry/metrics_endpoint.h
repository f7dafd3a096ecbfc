// The HTTP endpoint that Prometheus scrapes.
#ifndef CHORALE_SERVER_TELEMETRY_METRICS_ENDPOINT_H_
#define CHORALE_SERVER_TELEMETRY_METRICS_ENDPOINT_H_

#include <prometheus/exposer.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/telemetry/prometheus_metrics.h"

namespace chorale {

// Serves GET /metrics on its own threads until it is destroyed. Immutable.
class MetricsEndpoint {
 public:
  // Unavailable if it cannot listen on the address. Port 0 means any free port.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(const std::string& address,
                                                                const PrometheusMetrics& metrics);
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  int port() const { return port_; }

 private:
  MetricsEndpoint() = default;

  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  int port_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_METRICS_ENDPOINT_H_
