// Row encoders: from the features of a row to one vector of the model's width.
//
// Rows are encoded once, never once per path, and an encoder never sees a sampled y. A new encoder
// is one new file with its implementation and one line in MakeRowEncoder.
#ifndef CHORALE_ENGINE_BACKENDS_CPU_ROW_ENCODER_H_
#define CHORALE_ENGINE_BACKENDS_CPU_ROW_ENCODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model.h"

namespace chorale {

// Immutable and thread-safe.
class RowEncoder {
 public:
  virtual ~RowEncoder() = default;

  // What the encoder has to know of a context. Never null.
  virtual std::shared_ptr<const RowEncoderState> Fit(const FeatureMatrix& context) const = 0;

  // Writes the encodings of rows [first, first + rows) to out [rows, D]. A row's encoding depends
  // on that row and the state alone.
  virtual void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
                      int64_t rows, float* out) const = 0;

  // Floating-point operations, for fair sharing.
  virtual double FitFlops(int64_t rows, int64_t features) const = 0;
  virtual double EncodeFlops(int64_t rows, int64_t features) const = 0;
};

// The encoder that the model's configuration names. InvalidArgument for an unknown name.
absl::StatusOr<std::unique_ptr<const RowEncoder>> MakeRowEncoder(const Model& model);

// encode(x) = mean_f(x_f) * weight + bias. Looks at nothing but the row.
std::unique_ptr<const RowEncoder> MakeFeatureMeanEncoder(const FeatureMeanWeights& weights);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKENDS_CPU_ROW_ENCODER_H_
