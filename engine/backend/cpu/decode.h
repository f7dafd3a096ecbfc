// Autoregressive decode of one tile of paths.
#ifndef CHORALE_ENGINE_BACKEND_CPU_DECODE_H_
#define CHORALE_ENGINE_BACKEND_CPU_DECODE_H_

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/work.h"

namespace chorale::cpu {

// The size of the buffer K/V of one tile: [L, paths] of LayerKvShape(config).Elements(capacity).
int64_t DecodeBufferBytes(const ModelConfig& config, int64_t positions, int64_t paths);

// Thread contract: see BatchedWork. Tasks of one batch process different paths and share no data
// that they write.
class DecodeWork : public chorale::DecodeWork, public BatchedWork {
 public:
  // `context_kv` and `buffer` are the pools' memory at the ranges of the context and the spec.
  DecodeWork(DecodeSpec spec, const float* context_kv, float* buffer);

  bool done() const override { return steps_done_ == positions_; }
  double next_step_flops() const override;
  double next_flops(int64_t steps) const override;
  int64_t steps_at_this_cost() const override { return positions_ - steps_done_; }
  int64_t steps_done() const override { return steps_done_; }
  absl::Span<const float> values() const override { return values_; }
  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t position) const override;

  int64_t BeginBatch(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, Scratch& scratch) override;
  int64_t EndBatch() override;

 private:
  // Paths [first, first + count) of the tile.
  struct PathRange {
    int64_t first = 0;
    int64_t count = 0;
  };

  void Step(PathRange paths, int64_t step, Scratch& scratch);
  void Embed(PathRange paths, int64_t step, Scratch& scratch);
  void AppendBuffer(PathRange paths, int64_t step, int64_t layer, Scratch& scratch);
  void Emit(PathRange paths, int64_t step, const Scratch& scratch);

  float* BufferAt(int64_t layer, int64_t path) const;
  AttentionKv KvOf(int64_t layer, int64_t step) const;

  const DecodeSpec spec_;
  const ContextKvView context_;
  const PackedModel& model_;
  const float* const encodings_;  // [T, D]
  float* const buffer_;           // [L, paths] of path_stride_ elements
  const int64_t positions_;       // P
  const int64_t capacity_;        // maximum keys of one path's buffer
  const int64_t path_stride_;

  int64_t steps_done_ = 0;
  int64_t batch_steps_ = 0;
  int64_t batch_tasks_ = 0;
  std::vector<float> values_;          // [P, paths]
  std::vector<double> log_densities_;  // [P, paths]
  MixtureStore mixtures_;              // [(P - first_mixture) * paths, M] if kept
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_DECODE_H_
