// Row encoders without GPU kernels: the host encodes the rows and uploads their encodings.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_HOST_ENCODER_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_HOST_ENCODER_H_

#include <cstdint>
#include <memory>

#include "engine/backend/cuda/row_encoder/row_encoder.h"
#include "engine/backend/row_encoder/row_encoder.h"

namespace chorale::cuda {

class HostEncoder : public DeviceRowEncoder {
 public:
  // `width` is D, that of an encoding.
  HostEncoder(std::unique_ptr<const RowEncoder> encoder, int64_t width);

  std::unique_ptr<RowEncoderFit> NewFit(const FeatureMatrix& context, absl::Span<const float> y,
                                        const LaunchWorkspace& launch) const override;
  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadState(
      absl::string_view bytes) const override {
    return encoder_->ReadState(bytes);
  }
  void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
              int64_t rows, float* out, const LaunchWorkspace& launch) const override;
  double EncodeFlops(int64_t rows, int64_t features) const override;
  int64_t memory_bytes() const override { return 0; }
  int shared_bytes() const override { return 0; }

 private:
  const std::unique_ptr<const RowEncoder> encoder_;
  const int64_t width_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_HOST_ENCODER_H_
