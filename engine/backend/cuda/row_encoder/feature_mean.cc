// The row encoder "feature_mean" (engine/backend/row_encoder/feature_mean.cc) on the GPU, with the
// same bits.
//
// The host uploads the cells of the rows, not their encodings: at width 1,024, the cells of 20
// columns have a fiftieth of the bytes.
#include "kernels/cuda/row_encoder/feature_mean.h"

#include <algorithm>
#include <memory>

#include "base/arena_layout.h"
#include "engine/backend/cuda/row_encoder/row_encoder.h"
#include "engine/backend/row_encoder/row_encoder.h"

namespace chorale::cuda {
namespace {

namespace kernel = kernels::cuda;

// The layout of the launch workspace while rows are encoded.
struct MeanLayout {
  MeanLayout() : arena(kAlignment), sum(arena.Take<double>(1)), cells(arena.Take<float>(1)) {}

  // Returns the number of cells that fit into a workspace of `bytes` bytes: at least one if `bytes`
  // is at least memory_bytes().
  int64_t CellsInMemory(int64_t bytes) const {
    return (bytes - cells.offset) / static_cast<int64_t>(sizeof(float));
  }

  ArenaLayout arena;
  ArenaArray<double> sum;   // [1], of a row that does not fit at once
  ArenaArray<float> cells;  // [CellsInMemory()], up to the end of the workspace
};

class MeanEncoder : public DeviceRowEncoder {
 public:
  MeanEncoder(const FeatureMeanWeights& weights, WeightBlob& blob)
      : host_(MakeFeatureMeanEncoder(weights)), width_(static_cast<int64_t>(weights.bias.size())) {
    blob.Add(weights.weight, &weight_);
    blob.Add(weights.bias, &bias_);
  }

  std::unique_ptr<RowEncoderFit> NewFit(const FeatureMatrix& context, absl::Span<const float> y,
                                        const LaunchWorkspace& launch) const override {
    return host_->NewFit(context, y);
  }

  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadState(
      absl::string_view bytes) const override {
    return host_->ReadState(bytes);
  }

  void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
              int64_t rows, float* out, const LaunchWorkspace& launch) const override {
    const int64_t fit = MeanLayout().CellsInMemory(launch.bytes) / features.features;
    const int64_t most = std::max<int64_t>(fit, 1);
    for (int64_t done = 0; done < rows; done += most) {
      EncodePart(features, first + done, std::min(most, rows - done), out + done * width_, launch);
    }
  }

  double EncodeFlops(int64_t rows, int64_t features) const override {
    return host_->EncodeFlops(rows, features);
  }

  int64_t memory_bytes() const override { return MeanLayout().arena.bytes(); }
  int shared_bytes() const override { return 0; }

 private:
  // Encodes rows that fit into the workspace, or a single row, whose cells may need several
  // launches.
  void EncodePart(const FeatureMatrix& features, int64_t first, int64_t rows, float* out,
                  const LaunchWorkspace& launch) const {
    const MeanLayout layout;
    float* const cells = layout.cells.At(launch.memory);
    const int64_t most = std::min(layout.CellsInMemory(launch.bytes), features.features);
    for (int64_t column = 0; column < features.features; column += most) {
      const int64_t columns = std::min(most, features.features - column);
      launch.device.Upload(cells, features.x.data() + first * features.features + column,
                           rows * columns * static_cast<int64_t>(sizeof(float)));
      if (!launch.device.status().ok()) return;
      launch.device.Launch(kernel::LaunchEncodeFeatureMeans,
                           {.cells = cells,
                            .weight = weight_,
                            .bias = bias_,
                            .sums = layout.sum.At(launch.memory),
                            .encodings = out,
                            .rows = static_cast<int32_t>(rows),
                            .columns = static_cast<int32_t>(columns),
                            .first_feature = static_cast<int32_t>(column),
                            .features = static_cast<int32_t>(features.features),
                            .width = static_cast<int32_t>(width_)},
                           "encoding rows by their means");
    }
  }

  const std::unique_ptr<const RowEncoder> host_;  // for the parts that need no GPU
  const int64_t width_;                           // D
  const float* weight_ = nullptr;                 // [D], set when the weights are on the GPU
  const float* bias_ = nullptr;                   // [D]
};

}  // namespace

std::unique_ptr<const DeviceRowEncoder> MakeDeviceFeatureMeanEncoder(
    const FeatureMeanWeights& weights, WeightBlob& blob) {
  return std::make_unique<MeanEncoder>(weights, blob);
}

}  // namespace chorale::cuda
