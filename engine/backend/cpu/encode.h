// Encoding of contexts, and of the rows of requests.
#ifndef CHORALE_ENGINE_BACKEND_CPU_ENCODE_H_
#define CHORALE_ENGINE_BACKEND_CPU_ENCODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/work.h"
#include "engine/backend/host/aligned_buffer.h"
#include "engine/backend/layer_schedule.h"

namespace chorale {

// Bytes of a resident context: [L] of LayerKvShape(config).Elements(rows).
int64_t ContextKvBytes(const ModelConfig& config, int64_t rows);

// Encodes a context phase by phase; within a phase all rows are independent:
//
//   fit         what the row encoder learns from the context, a step a piece
//   layer 0     embed every row, x = LN1(x + P x), leave K and V of layer 0
//   layer l     finish layer l-1 of every row (attention over that layer's K/V, feed-forward), then
//               x = LN1(x + P x), leave K and V of layer l
//
// The rest of the last layer is never computed: nobody reads what a context row becomes. Between
// phases the tokens of all rows, [N, D], are kept in host memory of their own.
//
// Thread contract: see CpuWork. Tasks of one round take different rows.
class CpuEncodeWork : public EncodeWork, public CpuWork {
 public:
  // `pool` is the context pool's memory at kv; `threads` sets how many rows one step takes.
  CpuEncodeWork(std::shared_ptr<const BackendModel> model, FeatureMatrix features,
                std::vector<float> y, PoolRange kv, float* pool, int threads);

  bool done() const override { return layers_.done(); }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override;
  ResidentContext TakeContext() override;

  int64_t BeginRound(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, CpuScratch& scratch) override;
  int64_t EndRound() override;

 private:
  bool fitted() const { return pieces_.done(); }

  void EmbedRowsOfContext(int64_t first, int64_t rows, CpuScratch& scratch);
  void FinishLayer(int64_t layer, int64_t rows, float* x, CpuScratch& scratch);
  void LeaveKeysValues(int64_t layer, int64_t first, int64_t rows, float* x, CpuScratch& scratch);

  const std::shared_ptr<const BackendModel> owner_;
  const CpuModel* const model_;
  const PoolRange range_;
  float* const kv_;  // [L] of LayerKvShape(config).Elements(rows_)
  const int64_t rows_;

  FeatureMatrix features_;              // emptied after layer 0
  std::vector<float> y_;                // [N], emptied after layer 0
  std::unique_ptr<RowEncoderFit> fit_;  // until it is finished
  std::shared_ptr<const RowEncoderState> encoder_state_;
  AlignedBuffer tokens_;  // [N, D]
  RowPhases pieces_;      // of the fit
  RowPhases layers_;      // phase l is that of layer l; they begin when the row encoder is fitted
};

// Encodes the target rows of a request. A step is a bounded batch of them.
// Thread contract: see CpuWork. Tasks take different rows.
class CpuRowsWork : public RowsWork, public CpuWork {
 public:
  CpuRowsWork(std::shared_ptr<const ResidentContext> context, FeatureMatrix features);

  bool done() const override { return rows_.done(); }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override;
  std::shared_ptr<const EncodedRows> TakeRows() override;

  int64_t BeginRound(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, CpuScratch& scratch) override;
  int64_t EndRound() override;

 private:
  const std::shared_ptr<const ResidentContext> context_;
  const CpuModel* const model_;
  const FeatureMatrix features_;
  std::shared_ptr<CpuEncodedRows> encoded_;
  RowPhases rows_;  // one phase
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_CPU_ENCODE_H_
