// One session on a backend, without an engine: a resident context, encoded query rows, and all
// tiles of a request advanced together.
#ifndef CHORALE_TESTS_BENCH_BENCH_SESSION_H_
#define CHORALE_TESTS_BENCH_BENCH_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/data/memory_set.h"
#include "tests/bench/bench_point.h"

namespace chorale {

// Ends the process with status 1. A benchmark that went wrong has no number to give.
[[noreturn]] void Fail(absl::string_view what);

// The memory set of two flags, `policy` being merge, heavy or sample. Fails if it is another.
MemorySet MemorySetOf(int64_t rows, const std::string& policy);

double Microseconds(absl::FunctionRef<void()> body);
double Median(std::vector<double> values);  // of at least one

// What a session takes of a backend's pools.
struct SessionBytes {
  int64_t context = 0;  // of the context pool
  int64_t append = 0;   // and behind it the context with the appended rows, if there are any
  int64_t encode = 0;   // of the encode pool, while one of these contexts is encoded
  int64_t rows = 0;     // of the buffer pool: the encoded query rows,
  int64_t decode = 0;   // and behind them all tiles, decoded
  int64_t density = 0;  // or in one pass,
  int64_t predict = 0;  // or the query rows' predictions
};
SessionBytes BytesOf(const Backend& backend, const ModelConfig& config, const BenchPoint& point);

// What is to be advanced together, all of one kind.
template <typename T>
using Works = std::vector<std::unique_ptr<T>>;

class BenchSession {
 public:
  // Encodes the context at the start of the context pool. `backend` outlives the session.
  BenchSession(Backend* backend, const Model& model, const BenchPoint& point);

  const BenchPoint& point() const { return point_; }
  const ModelConfig& config() const { return model_->config(); }
  // Of the encoding in the constructor.
  double encode_microseconds() const { return encode_microseconds_; }
  int64_t tiles() const;
  int64_t TilePaths(int64_t tile) const;  // the last one may have fewer

  // A new encoding of the same context into the same range.
  std::unique_ptr<EncodeWork> NewEncode() const;
  // An encoding of the context and its appended rows, with the context as prefix. REQUIRES:
  // BenchPoint::appended_rows, and no memory set.
  std::unique_ptr<EncodeWork> NewAppend() const;
  // All tiles of the request, in ranges of the buffer pool that follow the encoded query rows and
  // each other: works of one call are done before those of another begin. The values of the point's
  // known rows are given, others on each path.
  Works<DecodeWork> NewDecodes(uint64_t seed) const;
  // Densities of the values of the first paths of the request, [T, paths], as many paths in one
  // piece of work as the backend takes.
  Works<DensityWork> NewDensities(const std::vector<float>& values) const;
  std::unique_ptr<PredictWork> NewPredict() const;  // of all query rows

  // Until all are done, in slices of `steps`.
  void Run(absl::Span<Work* const> works, int64_t steps = 1 << 20) const;
  template <typename T>
  void Run(const Works<T>& works) const {
    std::vector<Work*> pointers;
    for (const std::unique_ptr<T>& work : works) pointers.push_back(work.get());
    Run(pointers);
  }

 private:
  TileSpec Tile(int64_t paths) const;

  Backend* const backend_;
  const BenchPoint point_;
  const std::shared_ptr<const BackendModel> model_;
  const SessionBytes bytes_;
  double encode_microseconds_ = 0;
  std::shared_ptr<const ResidentContext> context_;
  std::shared_ptr<const EncodedRows> query_rows_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_BENCH_BENCH_SESSION_H_
