// Row encoders, which map the features of a row to one vector of the model's width.
//
// Each row is encoded once, not once per path, and an encoder never reads a sampled y. To add an
// encoder, see docs/design/changes.md.
#ifndef CHORALE_ENGINE_BACKEND_ROW_ENCODER_ROW_ENCODER_H_
#define CHORALE_ENGINE_BACKEND_ROW_ENCODER_ROW_ENCODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model.h"

namespace chorale {

// Computes an encoder's state from a context in independent tasks, so that a large context does not
// delay other work.
class RowEncoderFit {
 public:
  virtual ~RowEncoderFit() = default;
  virtual int64_t tasks() const = 0;      // at least 1
  virtual double task_flops() const = 0;  // positive
  // Distinct tasks may run at the same time.
  virtual void RunTask(int64_t task) = 0;
  // Never null. REQUIRES: every task ran once.
  virtual std::shared_ptr<const RowEncoderState> Finish() = 0;
};

// Immutable and thread-safe.
class RowEncoder {
 public:
  virtual ~RowEncoder() = default;

  // Of the first rows of `context`, as many as y has elements: y [rows] is in the model's target
  // units. Both arguments outlive the result.
  virtual std::unique_ptr<RowEncoderFit> NewFit(const FeatureMatrix& context,
                                                absl::Span<const float> y) const = 0;

  // Restores a state from its RowEncoderState::Bytes. Returns DataLoss for invalid bytes.
  virtual absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadState(
      absl::string_view bytes) const = 0;

  // Writes the encodings of rows [first, first + rows) to out [rows, D]. A row's encoding depends
  // only on the row and the state.
  virtual void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
                      int64_t rows, float* out) const = 0;

  // The number of floating-point operations, for fair sharing.
  virtual double EncodeFlops(int64_t rows, int64_t features) const = 0;
};

// Creates the encoder for the weights of the model.
std::unique_ptr<const RowEncoder> MakeRowEncoder(const Model& model);

// encode(x) = mean_f(x_f) * weight + bias. Depends only on the row.
std::unique_ptr<const RowEncoder> MakeFeatureMeanEncoder(const FeatureMeanWeights& weights);

// See engine/backend/row_encoder/cell_attention.cc.
std::unique_ptr<const RowEncoder> MakeCellAttentionEncoder(const CellAttentionWeights& weights,
                                                           const ModelConfig& config);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_ROW_ENCODER_ROW_ENCODER_H_
