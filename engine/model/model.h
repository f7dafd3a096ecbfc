// A model that was loaded from its folder: configuration and float32 weights in host memory, with
// the feature attention folded. Backends read it once and keep the weights in their own form.
#ifndef CHORALE_ENGINE_MODEL_MODEL_H_
#define CHORALE_ENGINE_MODEL_MODEL_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "engine/model/row_encoder_weights.h"

namespace chorale {

// All matrices are row-major [out, in], so that y = W x.
struct LayerWeights {
  // P = Wo_f Wv_f, folded in float64 at load: with one feature column, feature attention is a
  // softmax over a single key, so its residual step is x + P x. The identity is not folded into P:
  // the rounding error of a sum that includes x would be the largest of the layer.
  std::vector<float> feature;  // [D, D]
  LayerNormWeights norm1;
  std::vector<float> wq;  // [H*Dh, D]
  std::vector<float> wk;  // [Hkv*Dh, D]
  std::vector<float> wv;  // [Hkv*Dh, D]
  std::vector<float> wo;  // [D, H*Dh]
  LayerNormWeights norm2;
  std::vector<float> w1;  // [Dff, D]
  std::vector<float> b1;  // [Dff]
  std::vector<float> w2;  // [D, Dff]
  std::vector<float> b2;  // [D]
  LayerNormWeights norm3;
};

struct HeadWeights {
  LayerNormWeights norm;
  std::vector<float> w1;           // [Dff, D]
  std::vector<float> b1;           // [Dff]
  std::vector<float> w2;           // [3M, Dff], outputs ordered [M, 3] = (mean, std, weight)
  std::vector<float> b2;           // [3M]
  std::vector<float> mean_bias;    // [M]
  std::vector<float> std_bias;     // [M]
  std::vector<float> weight_bias;  // [M]
};

struct EmbeddingWeights {
  std::vector<float> y_weight;   // [D]
  std::vector<float> y_bias;     // [D]
  std::vector<float> marker;     // [3, D]: query row, context, buffer
  std::vector<float> ar_tokens;  // [K, D]
};

using RowEncoderWeights = std::variant<FeatureMeanWeights, CellAttentionWeights>;

struct Model {
  std::string name;  // the folder's name; [a-z0-9][a-z0-9._-]{0,62}
  ModelConfig config;
  std::string digest;      // SHA-256 of config.json and model.safetensors, lower-case hex
  int64_t parameters = 0;  // learned values that the model uses
  EmbeddingWeights embedding;
  RowEncoderWeights row_encoder;
  std::vector<LayerWeights> layers;  // [L]
  HeadWeights head;
};

// Reads `folder`/config.json and `folder`/model.safetensors. Errors name the file and the cause.
// NotFound: a file is missing. InvalidArgument: a file is malformed, or a tensor has the wrong
// shape or dtype. Invalid files never cause a crash.
absl::StatusOr<Model> LoadModel(const std::string& folder);

}  // namespace chorale

#endif  // CHORALE_ENGINE_MODEL_MODEL_H_
