// Point predictions: targets that see the context alone.
#ifndef CHORALE_ENGINE_BACKEND_CPU_PREDICT_H_
#define CHORALE_ENGINE_BACKEND_CPU_PREDICT_H_

#include <cstdint>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/work.h"
#include "engine/backend/host/aligned_buffer.h"
#include "engine/backend/layer_schedule.h"

namespace chorale {

// Phase l takes every row through layer l, the last one through the head as well. Between phases
// the tokens of all rows, [rows, D], are kept in host memory of their own.
//
// Thread contract: see CpuWork. Tasks of one round take different rows.
class CpuPredictWork : public PredictWork, public CpuWork {
 public:
  // `context_kv` is the context pool's memory at the context's range.
  CpuPredictWork(PredictSpec spec, const float* context_kv);

  bool done() const override { return layers_.done(); }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override;
  MixtureSpan mixture(int64_t row) const override;

  int64_t BeginRound(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, CpuScratch& scratch) override;
  int64_t EndRound() override;

 private:
  int64_t last_layer() const { return model_.config().n_layers - 1; }
  void Embed(RowRange rows, float* x, CpuScratch& scratch) const;

  const PredictSpec spec_;
  const ContextReader context_;
  const CpuModel& model_;
  const float* const encodings_;  // [T, D]

  AlignedBuffer tokens_;  // [rows, D]
  RowPhases layers_;
  MixtureStore mixtures_;  // [rows, M]
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_CPU_PREDICT_H_
