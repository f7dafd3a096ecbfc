// A model's weights in the form that the CPU kernels read, and the K/V layout that follows from it.
#ifndef CHORALE_ENGINE_BACKEND_CPU_MODEL_H_
#define CHORALE_ENGINE_BACKEND_CPU_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/host/packed_linear.h"
#include "engine/backend/row_encoder/row_encoder.h"
#include "engine/backend/token_offsets.h"
#include "engine/model/model.h"

namespace chorale::cpu {

struct PackedLayer {
  PackedLinear feature;  // P = Wo_f Wv_f
  LayerNormWeights norm1;
  PackedLinear query;
  PackedLinear key_value;  // Wk over Wv: one row yields [k | v], [2 Hkv Dh]
  PackedLinear output;
  LayerNormWeights norm2;
  PackedLinear up;    // W1, b1
  PackedLinear down;  // W2, b2
  LayerNormWeights norm3;
};

struct PackedHead {
  LayerNormWeights norm;
  PackedLinear up;
  PackedLinear down;
  std::vector<float> mean_bias;    // [M]
  std::vector<float> std_bias;     // [M]
  std::vector<float> weight_bias;  // [M]
};

// Immutable and thread-safe.
class PackedModel : public BackendModel {
 public:
  explicit PackedModel(const Model& model);

  const ModelConfig& config() const override { return config_; }
  const std::vector<PackedLayer>& layers() const { return schedule_; }
  const PackedHead& head() const { return head_; }
  const float* y_weight() const { return y_weight_.data(); }  // [D]
  const float* offsets() const { return offsets_.data(); }    // [2 + K, D], see TokenOffset
  const RowEncoder& row_encoder() const { return *row_encoder_; }

 private:
  const ModelConfig config_;
  std::vector<PackedLayer> schedule_;
  PackedHead head_;
  std::vector<float> y_weight_;
  std::vector<float> offsets_;
  std::unique_ptr<const RowEncoder> row_encoder_;
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_MODEL_H_
