// Weights of the row encoders, which turn the cells of a row into one vector of the model's width.
#ifndef CHORALE_ENGINE_MODEL_ROW_ENCODER_WEIGHTS_H_
#define CHORALE_ENGINE_MODEL_ROW_ENCODER_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/model/weight_reader.h"

namespace chorale {

struct LayerNormWeights {
  std::vector<float> gamma;  // [width]
  std::vector<float> beta;   // [width]
};

LayerNormWeights TakeNorm(WeightReader& reader, const std::string& name, int64_t width);

// "feature_mean": encode(x) = mean_f(x_f) * weight + bias. Does not distinguish features.
struct FeatureMeanWeights {
  std::vector<float> weight;  // [D]
  std::vector<float> bias;    // [D]
};

FeatureMeanWeights TakeFeatureMean(WeightReader& reader, const ModelConfig& config);

// An attention block of width E with a memory m; without a memory, m is x:
//   x += Wo attend(Wq LN1(x), Wk LN1(m), Wv LN1(m))
//   x += W2 gelu(W1 LN2(x) + b1) + b2
struct EncoderBlockWeights {
  LayerNormWeights norm1;
  std::vector<float> wq;  // [E, E], like the next three
  std::vector<float> wk;
  std::vector<float> wv;
  std::vector<float> wo;
  LayerNormWeights norm2;
  std::vector<float> w1;  // [2E, E]
  std::vector<float> b1;  // [2E]
  std::vector<float> w2;  // [E, 2E]
  std::vector<float> b2;  // [E]
};

// "cell_attention": attention in columns, then in rows; see
// engine/backend/row_encoder/cell_attention.cc. Number and cell features are those of
// kernels/ops/cell_features.h.
struct CellAttentionWeights {
  std::vector<float> cell;        // [E, kCellFeatures]
  std::vector<float> cell_bias;   // [E]
  std::vector<float> target;      // [E, kNumberFeatures]
  std::vector<float> column_id;   // [max_features, E]
  std::vector<float> points;      // [I, E]
  std::vector<float> pooled;      // [P, E]
  EncoderBlockWeights summarise;  // inducing points attend to a column of the context
  EncoderBlockWeights mix_columns;
  EncoderBlockWeights read_column;  // a cell attends to the inducing points of its column
  std::vector<EncoderBlockWeights> row_layers;
  EncoderBlockWeights pool;  // seed tokens attend to the cells of a row
  // Parallel to the attention: the sum of the cells of a row, each multiplied by a gate that is
  // computed from its column's summary.
  std::vector<float> gate;       // [E, E]
  std::vector<float> gate_bias;  // [E]
  std::vector<float> direct;     // [D, E]
  LayerNormWeights out_norm;
  std::vector<float> out;       // [D, P*E]
  std::vector<float> out_bias;  // [D]
  LayerNormWeights norm;        // of width D
};

CellAttentionWeights TakeCellAttention(WeightReader& reader, const ModelConfig& config);

}  // namespace chorale

#endif  // CHORALE_ENGINE_MODEL_ROW_ENCODER_WEIGHTS_H_
