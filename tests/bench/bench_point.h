// The standard sizes at which decode is timed, and the model of each.
#ifndef CHORALE_TESTS_BENCH_BENCH_POINT_H_
#define CHORALE_TESTS_BENCH_BENCH_POINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/data/memory_set.h"
#include "engine/model/model.h"

namespace chorale {

struct BenchPoint {
  std::string name;
  int64_t paths = 0;         // B
  int64_t context_rows = 0;  // Nctx
  MemorySet memory = {};
  int64_t appended_rows = 0;  // by BenchSession::NewAppend
  int64_t query_rows = 32;    // T
  int64_t known_rows = 0;     // the first ones, whose values are known in decodes
  int64_t d_model = 128;
  int64_t n_heads = 2;
  int64_t n_layers = 12;
  int64_t d_ff = 256;
  int64_t num_components = 20;
  // Microseconds per step on an H200: the largest of the times that the tensor cores (790
  // TFLOP/s), the exponentials (16 a clock and multiprocessor) and the traffic of the buffers (4.3
  // TB/s) take; 0 where none was worked out.
  double floor_us = 0;

  ContextShape shape() const { return {.rows = context_rows, .memory = memory}; }
  ContextShape appended_shape() const {
    return {.rows = context_rows + appended_rows, .memory = memory};
  }
};

// a to e; b_wide and c_wide, whose model is twice as wide; a_h32 to c_wide_h32, the same with heads
// of 32 instead of 64; b_768 and b_1024, whose layers are in the unfused form; for tests of the
// benchmarks "tiny", and "tiny_hidden" in the unfused form.
const std::vector<BenchPoint>& BenchPoints();
std::optional<BenchPoint> FindBenchPoint(absl::string_view name);

// A point's model: random weights, one feature map for all columns (feature_mean).
Model ModelOf(const BenchPoint& point);

}  // namespace chorale

#endif  // CHORALE_TESTS_BENCH_BENCH_POINT_H_
