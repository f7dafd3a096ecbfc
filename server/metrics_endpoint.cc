#include "server/metrics_endpoint.h"

#include <exception>
#include <vector>

#include "absl/strings/str_cat.h"

namespace chorale {

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, const PrometheusMetrics& metrics) {
  auto endpoint = std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint());
  endpoint->registry_ = metrics.registry();
  try {  // CivetWeb's C++ interface throws
    endpoint->exposer_ = std::make_unique<prometheus::Exposer>(address);
    endpoint->exposer_->RegisterCollectable(endpoint->registry_);
    const std::vector<int> ports = endpoint->exposer_->GetListeningPorts();
    if (!ports.empty()) endpoint->port_ = ports.front();
  } catch (const std::exception& e) {
    return absl::UnavailableError(absl::StrCat(
        "cannot serve metrics on ", address,
        ": the address is malformed, or another process listens there (", e.what(), ")"));
  }
  return endpoint;
}

}  // namespace chorale
