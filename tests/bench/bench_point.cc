#include "tests/bench/bench_point.h"

#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

BenchPoint Wide(BenchPoint point) {
  point.d_model = 256;
  point.n_heads = 4;
  point.d_ff = 1024;
  return point;
}

// The same with twice as many heads, of 32.
BenchPoint HeadsOf32(BenchPoint point) {
  point.name += "_h32";
  point.n_heads *= 2;
  return point;
}

// Of a model that no layer kernel holds.
BenchPoint OfWidth(int64_t d_model, BenchPoint point) {
  point.paths = 512;
  point.context_rows = 1024;
  point.d_model = d_model;
  point.n_heads = d_model / 64;
  point.d_ff = 4 * d_model;
  return point;
}

// More than one tile, the last one ragged, and a context that is no multiple of any block.
BenchPoint Tiny() {
  return {.name = "tiny",
          .paths = 35,
          .context_rows = 70,
          .query_rows = 3,
          .d_model = 32,
          .n_heads = 2,
          .n_layers = 2,
          .d_ff = 48,
          .num_components = 3};
}

// A hidden layer that no layer kernel holds.
BenchPoint TinyHidden() {
  BenchPoint point = Tiny();
  point.name = "tiny_hidden";
  point.n_layers = 1;
  point.d_ff = 4160;
  return point;
}

}  // namespace

const std::vector<BenchPoint>& BenchPoints() {
  static const auto* const points = new std::vector<BenchPoint>{
      {.name = "a", .paths = 512, .context_rows = 100, .floor_us = 12},
      {.name = "b", .paths = 512, .context_rows = 1024, .floor_us = 13},
      {.name = "c", .paths = 4096, .context_rows = 1024, .floor_us = 102},
      {.name = "d", .paths = 64, .context_rows = 8192, .floor_us = 9},
      {.name = "e", .paths = 64, .context_rows = 1024},
      Wide({.name = "b_wide", .paths = 512, .context_rows = 1024, .floor_us = 44}),
      Wide({.name = "c_wide", .paths = 4096, .context_rows = 1024, .floor_us = 348}),
      HeadsOf32({.name = "a", .paths = 512, .context_rows = 100, .floor_us = 12}),
      HeadsOf32({.name = "b", .paths = 512, .context_rows = 1024, .floor_us = 13}),
      HeadsOf32({.name = "c", .paths = 4096, .context_rows = 1024, .floor_us = 104}),
      HeadsOf32({.name = "d", .paths = 64, .context_rows = 8192, .floor_us = 12}),
      HeadsOf32({.name = "e", .paths = 64, .context_rows = 1024}),
      HeadsOf32(Wide({.name = "b_wide", .paths = 512, .context_rows = 1024, .floor_us = 44})),
      HeadsOf32(Wide({.name = "c_wide", .paths = 4096, .context_rows = 1024, .floor_us = 348})),
      OfWidth(768, {.name = "b_768", .floor_us = 292}),
      OfWidth(1024, {.name = "b_1024", .floor_us = 496}),
      Tiny(),
      TinyHidden()};
  return *points;
}

std::optional<BenchPoint> FindBenchPoint(absl::string_view name) {
  for (const BenchPoint& point : BenchPoints()) {
    if (point.name == name) return point;
  }
  return std::nullopt;
}

Model ModelOf(const BenchPoint& point) {
  TestModelOptions options = {.name = "bench"};
  options.d_model = point.d_model;
  options.n_heads = options.n_kv_heads = point.n_heads;
  options.n_layers = point.n_layers;
  options.d_ff = point.d_ff;
  options.num_components = point.num_components;
  options.buffer_size = point.query_rows;
  return MakeTestModel(options);
}

}  // namespace chorale
