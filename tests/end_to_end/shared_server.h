// One server for all tests of a suite, and a session on it that none of them may disturb.
#ifndef CHORALE_TESTS_END_TO_END_SHARED_SERVER_H_
#define CHORALE_TESTS_END_TO_END_SHARED_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"

namespace chorale::end_to_end {

// A running server with the model golden_tiny, the context "data" (200 rows, 3 features) and what a
// session gave while nothing else was going on. Thread-compatible.
class SharedServer {
 public:
  // Null, with a failure added, when it does not start.
  static std::unique_ptr<SharedServer> Start(std::vector<std::string> flags = {});

  ServerProcess& process() { return *process_; }
  const std::string& address() const { return process_->address(); }
  ApiClient& client() { return *client_; }
  PrometheusPage Metrics() const { return PrometheusPage::Fetch(process_->metrics_address()); }

  // A session of some tenths of a second.
  static v1::SampleRequest ShortSession();
  // One that lasts for seconds, and delivers from the beginning.
  static v1::SampleRequest LongSession();

  // What ShortSession gave when it ran alone, and how long that took.
  const Samples& undisturbed() const { return undisturbed_; }
  absl::Duration undisturbed_time() const { return undisturbed_time_; }

  // SIGTERM; adds a failure unless the process ends with exit code 0. The client goes first: an
  // idle one takes seconds to see that its server says goodbye.
  void Terminate();

  // Waits until no buffer is in use, then runs ShortSession: its bits must be those of before.
  void ExpectUndisturbed();

 private:
  std::unique_ptr<ServerProcess> process_;
  std::unique_ptr<ApiClient> client_;
  Samples undisturbed_;
  absl::Duration undisturbed_time_;
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_SHARED_SERVER_H_
