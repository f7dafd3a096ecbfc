#include "engine/backend/cuda/row_encoder/host_encoder.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace chorale::cuda {
namespace {

// Rows whose encodings are on the host at a time.
constexpr int64_t kPartRows = 1'024;

}  // namespace

HostEncoder::HostEncoder(std::unique_ptr<const RowEncoder> encoder, int64_t width)
    : encoder_(std::move(encoder)), width_(width) {}

std::unique_ptr<RowEncoderFit> HostEncoder::NewFit(const FeatureMatrix& context,
                                                   absl::Span<const float> y,
                                                   const LaunchWorkspace& launch) const {
  return encoder_->NewFit(context, y);
}

void HostEncoder::Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
                         int64_t rows, float* out, const LaunchWorkspace& launch) const {
  std::vector<float> encodings(std::min(rows, kPartRows) * width_);
  for (int64_t done = 0; done < rows; done += kPartRows) {
    const int64_t part = std::min(kPartRows, rows - done);
    encoder_->Encode(state, features, first + done, part, encodings.data());
    launch.device.Upload(out + done * width_, encodings.data(),
                         part * width_ * static_cast<int64_t>(sizeof(float)));
  }
}

double HostEncoder::EncodeFlops(int64_t rows, int64_t features) const {
  return encoder_->EncodeFlops(rows, features);
}

}  // namespace chorale::cuda
