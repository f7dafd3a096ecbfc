// Encodes contexts and the query rows of requests.
#ifndef CHORALE_ENGINE_BACKEND_CPU_ENCODE_H_
#define CHORALE_ENGINE_BACKEND_CPU_ENCODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/context_layout.h"
#include "engine/backend/cpu/work.h"
#include "engine/backend/encode_schedule.h"
#include "engine/backend/host/aligned_buffer.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cpu {

// Encodes a context that is not reduced, phase by phase. Within a phase all rows are independent:
//
// clang-format off
//   fit         the row encoder is fitted to the context, one task per step
//   layer 0     embed every row, x = LN1(x + P x), write K and V of layer 0
//   layer l     attention of layer l-1 over that layer's K/V, feed-forward, then x = LN1(x + P x),
//               write K and V of layer l
// clang-format on
//
// The rest of the last layer is not computed, because nothing reads it. If rows were appended, the
// fit is to the rows before the first append, and the blocks of rows (EncodeSchedule) pass through
// the layers one after the other. A prefix replaces the fit and the blocks that it contains: its
// K/V are copied. Between phases the tokens of the rows of one block are in separate host memory.
//
// Thread contract: see BatchedWork. Tasks of one batch process different rows.
class EncodeWork : public chorale::EncodeWork, public BatchedWork {
 public:
  // `pool` is the context pool's memory at spec.kv, and `prefix` at spec.prefix->kv; `threads`
  // determines the number of rows per step. REQUIRES: !spec.shape().reduced().
  EncodeWork(EncodeSpec spec, float* pool, int threads, const float* prefix = nullptr);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  double next_flops(int64_t steps) const override { return schedule_.next_flops(steps); }
  int64_t steps_at_this_cost() const override { return schedule_.steps_at_this_cost(); }
  ResidentContext TakeContext() override;

  int64_t BeginBatch(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, Scratch& scratch) override;
  int64_t EndBatch() override;

 private:
  static std::unique_ptr<RowEncoderFit> NewFit(const PackedModel& model, const EncodeSpec& spec);

  void EndStage();

  // Tasks; `rows` are rows of the context.
  void CopyRowsOfPrefix(RowRange rows);
  void EncodeRowsOfBlock(RowRange rows, Scratch& scratch);

  // x = the tokens of these rows, [rows, D].
  void Embed(RowRange rows, float* x, Scratch& scratch);
  void AttendAndFeedForward(int64_t layer, int64_t rows, float* x, Scratch& scratch);
  void PreAttention(int64_t layer, RowRange rows, float* x, Scratch& scratch);

  EncodeSpec spec_;  // its features and y are emptied after layer 0 of the last block
  const PackedModel* const model_;
  const ContextShape shape_;
  const ContextLayout layout_;
  float* const memory_;  // of the context
  const float* const prefix_memory_;

  std::unique_ptr<RowEncoderFit> fit_;  // until it is finished; null with a prefix
  std::shared_ptr<const RowEncoderState> encoder_state_;
  EncodeSchedule schedule_;
  AlignedBuffer tokens_;  // [rows of the block, D]
};

// Encodes the query rows of a request. A step is a bounded batch of rows. Thread contract: see
// BatchedWork. Tasks process different rows.
class EncodeQueryRowsWork : public RowsWork, public BatchedWork {
 public:
  EncodeQueryRowsWork(std::shared_ptr<const ResidentContext> context, FeatureMatrix features);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  double next_flops(int64_t steps) const override { return schedule_.next_flops(steps); }
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
