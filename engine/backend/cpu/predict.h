// Marginal predictions: query rows attend only to the context.
#ifndef CHORALE_ENGINE_BACKEND_CPU_PREDICT_H_
#define CHORALE_ENGINE_BACKEND_CPU_PREDICT_H_

#include <cstdint>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/work.h"
#include "engine/backend/host/aligned_buffer.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cpu {

// Phase l processes layer l of every row; the last phase also computes the head. Between phases the
// tokens of all rows, [rows, D], are in separate host memory.
//
// Thread contract: see BatchedWork. Tasks of one batch process different rows.
class PredictWork : public chorale::PredictWork, public BatchedWork {
 public:
  // `context_kv` is the context pool's memory at the context's range.
  PredictWork(PredictSpec spec, const float* context_kv);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  double next_flops(int64_t steps) const override { return schedule_.next_flops(steps); }
  int64_t steps_at_this_cost() const override { return schedule_.steps_at_this_cost(); }
  MixtureSpan mixture(int64_t row) const override;

  int64_t BeginBatch(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, Scratch& scratch) override;
  int64_t EndBatch() override;

 private:
  int64_t last_layer() const { return model_.config().n_layers - 1; }
  void Embed(RowRange rows, float* x, Scratch& scratch) const;

  const PredictSpec spec_;
  const ContextKvView context_;
  const PackedModel& model_;
  const float* const encodings_;  // [T, D]

  AlignedBuffer tokens_;  // [rows, D]
  LayerSchedule schedule_;
  MixtureStore mixtures_;  // [rows, M]
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_PREDICT_H_
