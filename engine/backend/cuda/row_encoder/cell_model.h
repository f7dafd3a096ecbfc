// The weights of "cell_attention" (engine/backend/row_encoder/cell_attention.cc), on the GPU or on
// the host, depending on where they are used.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_CELL_MODEL_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_CELL_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/backend/host/packed_linear.h"
#include "engine/backend/row_encoder/cell_columns.h"
#include "engine/backend/row_encoder/encoder_block.h"
#include "engine/model/model_config.h"
#include "engine/model/row_encoder_weights.h"
#include "kernels/cuda/row_encoder/cell_layout.h"

namespace chorale::cuda {

// Returns InvalidArgument, with the supported sizes, if the kernels do not support the shape.
absl::Status CheckCellConfig(const ModelConfig& config);

// The learned state of each column for encoding rows: the keys and values of its inducing points,
// and its gate.
struct CellState : public RowEncoderState {
  std::vector<uint16_t> points;  // [F, kCellTileKvSize] bf16
  std::vector<float> gates;      // [F, kCellWidth]

  std::string Bytes() const override;
  static absl::StatusOr<std::shared_ptr<const RowEncoderState>> FromBytes(absl::string_view bytes);
};

// Immutable once the weights are on the GPU; the upload sets the pointers.
struct CellModel {
  CellModel(const CellAttentionWeights& weights, const ModelConfig& config, WeightBlob& blob);

  std::shared_ptr<const CellState> MakeState(CellColumns columns) const;

  const int64_t width;  // E
  const int64_t heads;
  const int64_t inducing_points;  // I
  const int64_t seed_tokens;      // P
  const int64_t encoding;         // D
  const int64_t max_features;
  const kernels::cuda::CellShape shape;

  // On the host:
  const std::vector<float> inducing_point_tokens;  // [I, E]
  const EncoderBlock finish_points;                // the last part of `summarise`
  const CellColumnMixer mixer;
  const LayerNormWeights read_norm;  // of read_column, for K and V of the points
  const PackedLinear read_key_value;

  // On the device; see the parameters of the kernels:
  const float* cell = nullptr;
  const float* cell_and_target = nullptr;
  const float* column_ids = nullptr;
  const float* points = nullptr;
  const float* pooled = nullptr;
  const uint16_t* summarise = nullptr;
  const uint16_t* read_column = nullptr;
  std::vector<const uint16_t*> row_layers;
  const uint16_t* pool = nullptr;
  const float* out_gamma = nullptr;
  const float* out_beta = nullptr;
  const uint16_t* out = nullptr;
  const float* out_bias = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_CELL_MODEL_H_
