// A way to a served model, so that the same load goes through the whole service and into the engine
// alone.
#ifndef CHORALE_TESTS_BENCH_SAMPLER_H_
#define CHORALE_TESTS_BENCH_SAMPLER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace chorale {

// Values of paths [first_path, ...) at steps [first_step, ...), [paths, steps] row-major.
struct DrawnBlock {
  int64_t first_path = 0;
  int64_t paths = 0;
  int64_t first_step = 0;
  int64_t steps = 0;
  absl::Span<const double> values;
};

// Sampling calls of one user, one at a time.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // Draws `paths` paths over all query rows of the load from context `context`. Hands out blocks as
  // they come, one at a time; gives up soon after `stop` is set, then with an error.
  virtual absl::Status Sample(int context, int64_t paths, uint64_t seed,
                              const std::atomic<bool>& stop,
                              absl::FunctionRef<void(const DrawnBlock&)> on_block) = 0;
};

// Something that samplers connect to, with the load's contexts registered and encoded.
class Target {
 public:
  virtual ~Target() = default;
  virtual std::string description() const = 0;
  virtual std::unique_ptr<Sampler> NewSampler() = 0;
};

struct LoadOptions {
  std::string model;  // folder
  std::vector<std::string> server_flags = {};
  int contexts = 8;
  int64_t rows = 1024;
  int64_t query_rows = 32;
  int64_t context_pool_mib = 2048;
  int64_t buffer_pool_mib = 4096;
};

// Both end the process, saying why, when they cannot be had.
std::unique_ptr<Target> StartEngineTarget(const LoadOptions& options);
std::unique_ptr<Target> StartServiceTarget(const LoadOptions& options);

// The load's tables: column `column` of context `context`, or of the query rows when that is -1.
// The last column is the context's y.
inline constexpr int kLoadColumns = 6;
std::string LoadColumnName(int column);
std::vector<double> LoadColumn(int context, int column, int64_t rows);

}  // namespace chorale

#endif  // CHORALE_TESTS_BENCH_SAMPLER_H_
