#include "server/telemetry/metrics_endpoint.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace chorale {
namespace {

// Connects to a local port and disconnects, so that a poll of its listening socket returns.
void WakeAcceptLoop(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  close(connection);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, const PrometheusMetrics& metrics) {
  auto endpoint = std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint());
  endpoint->registry_ = metrics.registry();
  try {  // CivetWeb's C++ interface throws exceptions
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

// CivetWeb checks its stop flag only when the poll of its listening socket returns: after two
// seconds, or on a connection. Connecting saves these seconds at every shutdown.
MetricsEndpoint::~MetricsEndpoint() {
  if (exposer_ == nullptr) return;
  std::atomic<bool> stopped{false};
  std::thread waker([this, &stopped] {
    while (!stopped) {
      WakeAcceptLoop(port_);
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  exposer_.reset();
  stopped = true;
  waker.join();
}

}  // namespace chorale
