#include "base/require.h"
#include "engine/backend/row_encoder/row_encoder.h"

namespace chorale {
namespace {

// Stateless: every row is encoded separately.
class EmptyState : public RowEncoderState {};

class NothingToLearn : public RowEncoderFit {
 public:
  int64_t tasks() const override { return 1; }
  double task_flops() const override { return 1; }
  void RunTask(int64_t task) override {}
  std::shared_ptr<const RowEncoderState> Finish() override {
    return std::make_shared<EmptyState>();
  }
};

class FeatureMeanEncoder : public RowEncoder {
 public:
  explicit FeatureMeanEncoder(const FeatureMeanWeights& weights) : weights_(weights) {}

  std::unique_ptr<RowEncoderFit> NewFit(const FeatureMatrix& context,
                                        absl::Span<const float> y) const override {
    return std::make_unique<NothingToLearn>();
  }

  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadState(
      absl::string_view bytes) const override {
    if (!bytes.empty()) return absl::DataLossError("this row encoder has no state");
    return std::make_shared<EmptyState>();
  }

  void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
              int64_t rows, float* out) const override {
    Require(features.features > 0, "a row has features");
    const int64_t width = static_cast<int64_t>(weights_.weight.size());
    for (int64_t row = 0; row < rows; ++row) {
      const float* x = features.x.data() + (first + row) * features.features;
      double mean = 0;
      for (int64_t f = 0; f < features.features; ++f) mean += x[f];
      mean /= static_cast<double>(features.features);
      for (int64_t d = 0; d < width; ++d) {
        out[row * width + d] = static_cast<float>(mean * weights_.weight[d] + weights_.bias[d]);
      }
    }
  }

  double EncodeFlops(int64_t rows, int64_t features) const override {
    return static_cast<double>(rows) *
           (static_cast<double>(features) + 2.0 * static_cast<double>(weights_.weight.size()));
  }

 private:
  const FeatureMeanWeights weights_;
};

}  // namespace

std::unique_ptr<const RowEncoder> MakeFeatureMeanEncoder(const FeatureMeanWeights& weights) {
  return std::make_unique<FeatureMeanEncoder>(weights);
}

}  // namespace chorale
