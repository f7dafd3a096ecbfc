// Work of the CPU backend, which it advances in batches of independent tasks.
#ifndef CHORALE_ENGINE_BACKEND_CPU_WORK_H_
#define CHORALE_ENGINE_BACKEND_CPU_WORK_H_

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/context_layout.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/cpu/model.h"
#include "engine/backend/cpu/scratch.h"
#include "kernels/ops/mixture_head.h"

namespace chorale::cpu {

// Thread contract: engine thread only, except RunTask, which the pool's threads call concurrently
// for different tasks of one batch.
class BatchedWork {
 public:
  virtual ~BatchedWork() = default;

  virtual bool done() const = 0;  // Work::done
  // Plans up to max_steps steps (at least one), and divides them into independent tasks, if
  // possible about `parallelism` tasks. Returns the number of tasks, at least one. REQUIRES: the
  // work is not done.
  virtual int64_t BeginBatch(int64_t max_steps, int parallelism) = 0;

  virtual void RunTask(int64_t task, Scratch& scratch) = 0;

  // Call after all tasks of the batch. Returns the number of steps of the batch.
  virtual int64_t EndBatch() = 0;
};

// Encodings of query rows, [T, D].
class EncodedQueryRows : public EncodedRows {
 public:
  EncodedQueryRows(int64_t rows, int64_t width) : rows_(rows), encodings_(rows * width) {}
  int64_t rows() const override { return rows_; }
  const float* encodings() const { return encodings_.data(); }
  float* mutable_encodings() { return encodings_.data(); }

 private:
  const int64_t rows_;
  AlignedBuffer encodings_;
};

// The encodings [T, D] of `rows`. REQUIRES: this backend created `rows`.
const float* EncodingsOf(const EncodedRows& rows);

// REQUIRES of features: [rows, features], with at least one row and one feature.
void RequireShape(const FeatureMatrix& features);

// The index of the query row at a position of a path of the tile.
int32_t QueryRowAt(const TileSpec& tile, int64_t path, int64_t position);

// Mixtures of some rows, [rows, M].
class MixtureStore {
 public:
  MixtureStore() = default;
  MixtureStore(int64_t rows, int64_t components)
      : components_(components),
        mean_(rows * components),
        std_(rows * components),
        log_weight_(rows * components) {}

  void Set(int64_t row, const kernels::MixtureView& mixture);
  MixtureSpan Get(int64_t row) const;

 private:
  int64_t components_ = 0;
  std::vector<double> mean_;
  std::vector<double> std_;
  std::vector<double> log_weight_;
};

// REQUIRES: the model belongs to the CPU backend.
const PackedModel& AsPackedModel(const BackendModel& model);

// A view of a resident context for the forward pass.
class ContextKvView {
 public:
  // `pool` is the context pool's memory at context.kv.
  ContextKvView(const ResidentContext& context, const float* pool);

  const PackedModel& model() const { return *model_; }
  int64_t keys() const { return layout_.keys(); }
  AttentionKv Layer(int64_t layer) const;  // the context of one layer, without a buffer

 private:
  const PackedModel* model_;
  const float* memory_;
  ContextLayout layout_;
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_WORK_H_
