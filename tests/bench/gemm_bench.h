// What the products of a layer cost beside those of cuBLASLt, the yardstick: each of the five by
// the algorithm that PlanGemm chooses, and a whole layer without attention in both of its forms.
#ifndef CHORALE_TESTS_BENCH_GEMM_BENCH_H_
#define CHORALE_TESTS_BENCH_GEMM_BENCH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/model/model.h"
#include "nlohmann/json.hpp"

namespace chorale {

struct GemmBenchOptions {
  std::string cublaslt;       // the library's file; empty: where the system has it
  int64_t scratch_bytes = 0;  // in which algorithms are chosen, see PlanGemm
  int runs = 3;               // timed ones, of which the median counts
};

// A model's layers on the device, without an engine or a backend. Whatever goes wrong ends the
// process.
//
// Thread contract: one thread.
class GemmBench {
 public:
  // REQUIRES: there is a device. Of a model whose sizes need padding it says so and ends.
  GemmBench(const Model& model, const GemmBenchOptions& options);
  ~GemmBench();

  // For so many rows, a multiple of kTileRows, of a context that is being encoded, in launches of
  // at most kMostGemmRows. Before anything is timed, three rows of each form are held to the
  // definition in float64.
  //
  //   fused_layer_us   the layer kernel: post-attention, then pre-attention; if it holds the model
  //   wide_layer_us    the same as a sequence of launches
  //   products         us and tflop_per_s of all five products, and under its name of each
  //
  // Times are the device's: of a graph that takes each layer of the model in turn, so that weights
  // come from where a pass over the model finds them. Attention is one partial (kSingle).
  nlohmann::ordered_json Measure(int64_t rows) const;

 private:
  class Rows;
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_BENCH_GEMM_BENCH_H_
