// Encodes contexts and the query rows of requests.
#ifndef CHORALE_ENGINE_BACKEND_CPU_ENCODE_H_
#define CHORALE_ENGINE_BACKEND_CPU_ENCODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/work.h"
#include "engine/backend/host/aligned_buffer.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cpu {

// The size of a resident context: [L] of LayerKvShape(config).Elements(rows).
int64_t ContextKvBytes(const ModelConfig& config, int64_t rows);

// Encodes a context phase by phase. Within a phase all rows are independent:
//
// clang-format off
//   fit         the row encoder is fitted to the context, one task per step
//   layer 0     embed every row, x = LN1(x + P x), write K and V of layer 0
//   layer l     attention of layer l-1 over that layer's K/V, feed-forward, then x = LN1(x + P x),
//               write K and V of layer l
// clang-format on
//
// The rest of the last layer is not computed, because nothing reads it. Between phases the tokens
// of all rows, [N, D], are in separate host memory.
//
// Thread contract: see BatchedWork. Tasks of one batch process different rows.
class EncodeWork : public chorale::EncodeWork, public BatchedWork {
 public:
  // `pool` is the context pool's memory at kv; `threads` determines the number of rows per step.
  EncodeWork(std::shared_ptr<const BackendModel> model, FeatureMatrix features,
             std::vector<float> y, PoolRange kv, float* pool, int threads);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override;
  ResidentContext TakeContext() override;

  int64_t BeginBatch(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, Scratch& scratch) override;
  int64_t EndBatch() override;

 private:
  bool fitted() const { return fit_schedule_.done(); }

  void EmbedRowsOfContext(int64_t first, int64_t rows, Scratch& scratch);
  void AttendAndFeedForward(int64_t layer, int64_t rows, float* x, Scratch& scratch);
  void PreAttention(int64_t layer, int64_t first, int64_t rows, float* x, Scratch& scratch);

  const std::shared_ptr<const BackendModel> owner_;
  const PackedModel* const model_;
  const PoolRange range_;
  float* const kv_;  // [L] of LayerKvShape(config).Elements(rows_)
  const int64_t rows_;

  FeatureMatrix features_;              // emptied after layer 0
  std::vector<float> y_;                // [N], emptied after layer 0
  std::unique_ptr<RowEncoderFit> fit_;  // until it is finished
  std::shared_ptr<const RowEncoderState> encoder_state_;
  AlignedBuffer tokens_;        // [N, D]
  LayerSchedule fit_schedule_;  // of the row encoder's fit
  LayerSchedule schedule_;      // phase l processes layer l, after the fit
};

// Encodes the query rows of a request. A step is a bounded batch of rows. Thread contract: see
// BatchedWork. Tasks process different rows.
class EncodeQueryRowsWork : public RowsWork, public BatchedWork {
 public:
  EncodeQueryRowsWork(std::shared_ptr<const ResidentContext> context, FeatureMatrix features);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  int64_t steps_at_this_cost() const override { return schedule_.steps_at_this_cost(); }
  std::shared_ptr<const EncodedRows> TakeRows() override;

  int64_t BeginBatch(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, Scratch& scratch) override;
  int64_t EndBatch() override;

 private:
  const std::shared_ptr<const ResidentContext> context_;
  const PackedModel* const model_;
  const FeatureMatrix features_;
  std::shared_ptr<EncodedQueryRows> encoded_;
  LayerSchedule schedule_;  // one phase
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_ENCODE_H_
