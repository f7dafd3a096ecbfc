// A closed-loop load on a server: each of several clients makes one call after another.
#ifndef CHORALE_CLIENT_CLI_BENCH_LOAD_H_
#define CHORALE_CLIENT_CLI_BENCH_LOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/client.h"

namespace chorale::client {

// The calls of a load. Table c depends only on c: y is a sum of sines of the other columns, which
// are uniform on (-1, 1).
struct BenchLoad {
  enum class Method { kSample, kPredict, kLogDensity } method = Method::kSample;
  std::vector<std::string> contexts;  // ids; client i uses context i modulo their number
  int64_t features = 5;
  int64_t query_rows = 32;  // of a call
  int64_t paths = 512;      // of a call; vectors for kLogDensity; not for kPredict
  absl::Duration warm_up = absl::Seconds(1);
  absl::Duration duration = absl::Seconds(5);
};

// Table `table` of a load, with the target column "y". Query rows are those of table -1.
DataFrame BenchTable(int64_t table, int64_t rows, int64_t features);

// The measurements during `duration`, after `warm_up`. Times are in milliseconds and sorted.
struct BenchResult {
  double calls_per_second = 0;          // completed calls
  double values_per_second = 0;         // paths x query rows; for kPredict, query rows
  std::vector<double> first_values_ms;  // from the start of a call to the first values; kSample
  std::vector<double> call_ms;          // from start to end
  // Attempts that failed with a transient error. The client then waits as usual, and the wait is
  // part of call_ms. Refused: the server was full, or the tenant's quota was used up. Unavailable:
  // the server was shutting down or unreachable.
  int64_t refused = 0;
  int64_t unavailable = 0;
};

// Connects a separate client, which calls `on_retry` before each retry.
using ConnectClient = std::function<absl::StatusOr<std::unique_ptr<Client>>(
    std::function<void(const absl::Status& why, absl::Duration delay)> on_retry)>;

// Puts the load on the server with `concurrency` clients at a time. Ends with, and returns, the
// first permanent error of a call. `call.cancellation` must not be null; if it is set, returns
// Cancelled within about 20 ms.
absl::StatusOr<BenchResult> RunBench(const BenchLoad& load, int concurrency,
                                     const ConnectClient& connect, const CallOptions& call);

// Returns the smallest of the sorted values that at least a share `p` in (0, 1] of the values do
// not exceed. Requires at least one value.
double Percentile(const std::vector<double>& sorted, double p);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_BENCH_LOAD_H_
