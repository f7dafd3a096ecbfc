// The row encoder "feature_mean". The host takes the means while it reads the rows, as it would to
// copy them, and a number a row goes to the GPU.
#include <algorithm>
#include <cassert>
#include <memory>
#include <vector>

#include "base/require.h"
#include "engine/backend/cuda/row_encoder/row_encoder.h"
#include "kernels/cuda/row_encoder/encode_means.h"

namespace chorale::cuda {
namespace {

// Every row is encoded by itself.
class EmptyState : public RowEncoderState {};

class NothingToLearn : public DeviceRowEncoderFit {
 public:
  int64_t tasks() const override { return 1; }
  double task_flops() const override { return 1; }
  void RunTask(int64_t task, const LaunchWorkspace& launch) override {}
  std::shared_ptr<const RowEncoderState> Finish() override {
    return std::make_shared<EmptyState>();
  }
};

class FeatureMeanEncoder : public DeviceRowEncoder {
 public:
  FeatureMeanEncoder(const FeatureMeanWeights& weights, WeightBlob& blob)
      : width_(static_cast<int64_t>(weights.weight.size())) {
    blob.Add(weights.weight, &weight_);
    blob.Add(weights.bias, &bias_);
  }

  std::unique_ptr<DeviceRowEncoderFit> NewFit(const FeatureMatrix& context,
                                              absl::Span<const float> y) const override {
    return std::make_unique<NothingToLearn>();
  }

  void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
              int64_t rows, float* out, const LaunchWorkspace& launch) const override {
    const int64_t most = launch.bytes / static_cast<int64_t>(sizeof(double));
    for (int64_t done = 0; done < rows; done += most) {
      const int64_t n = std::min(most, rows - done);
      const std::vector<double> means = Means(features, first + done, n);
      launch.device.Upload(launch.memory, means.data(), n * static_cast<int64_t>(sizeof(double)));
      const kernels::cuda::EncodeMeansParams params = {
          .means = reinterpret_cast<const double*>(launch.memory),
          .weight = weight_,
          .bias = bias_,
          .encodings = out + done * width_,
          .rows = static_cast<int32_t>(n),
          .width = static_cast<int32_t>(width_)};
      assert(kernels::cuda::ValidateEncodeMeans(params).ok());
      if (!launch.device.status().ok()) return;
      launch.device.Check(kernels::cuda::LaunchEncodeMeans(params, launch.device.stream()),
                          "encoding rows");
    }
  }

  double EncodeFlops(int64_t rows, int64_t features) const override {
    return static_cast<double>(rows) *
           (static_cast<double>(features) + 2.0 * static_cast<double>(width_));
  }

  int64_t memory_bytes() const override { return sizeof(double); }
  int shared_bytes() const override { return 0; }

 private:
  static std::vector<double> Means(const FeatureMatrix& features, int64_t first, int64_t rows) {
    Require(features.features > 0, "a row has features");
    std::vector<double> means(rows);
    for (int64_t row = 0; row < rows; ++row) {
      const float* x = features.x.data() + (first + row) * features.features;
      for (int64_t f = 0; f < features.features; ++f) means[row] += x[f];
      means[row] /= static_cast<double>(features.features);
    }
    return means;
  }

  const int64_t width_;  // D
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
};

}  // namespace

std::unique_ptr<const DeviceRowEncoder> MakeFeatureMeanEncoder(const FeatureMeanWeights& weights,
                                                               WeightBlob& blob) {
  return std::make_unique<FeatureMeanEncoder>(weights, blob);
}

}  // namespace chorale::cuda
