// Point predictions: targets that see the context alone.
#ifndef CHORALE_ENGINE_BACKENDS_CPU_PREDICT_H_
#define CHORALE_ENGINE_BACKENDS_CPU_PREDICT_H_

#include <cstdint>

#include "engine/backends/backend.h"
#include "engine/backends/cpu_work.h"

namespace chorale {

// A step is a chunk of rows that goes through the whole model.
// Thread contract: see CpuWork. Tasks of one round take different rows.
class CpuPredictWork : public PredictWork, public CpuWork {
 public:
  // `context_kv` is the context pool's memory at the context's range.
  CpuPredictWork(PredictSpec spec, const float* context_kv);

  bool done() const override { return rows_done_ == spec_.rows; }
  double next_step_flops() const override;
  MixtureSpan mixture(int64_t row) const override;

  int64_t BeginRound(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, CpuScratch& scratch) override;
  int64_t EndRound() override;

 private:
  const PredictSpec spec_;
  const ContextReader context_;
  const CpuModel& model_;
  const float* const encodings_;  // [T, D]

  int64_t rows_done_ = 0;
  int64_t round_rows_ = 0;
  MixtureStore mixtures_;  // [rows, M]
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKENDS_CPU_PREDICT_H_
