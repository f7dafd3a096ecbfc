#include "engine/backend/token_offsets.h"

namespace chorale {

std::vector<float> TokenOffsets(const EmbeddingWeights& weights, const ModelConfig& config) {
  const int64_t d = config.d_model;
  std::vector<float> offsets((2 + config.buffer_size) * d);
  for (int64_t i = 0; i < d; ++i) {
    const double y_bias = weights.y_bias[i];
    offsets[i] = weights.marker[i];
    offsets[d + i] = static_cast<float>(weights.marker[d + i] + y_bias);
    for (int64_t place = 0; place < config.buffer_size; ++place) {
      offsets[(2 + place) * d + i] =
          static_cast<float>(weights.marker[2 * d + i] + y_bias + weights.ar_tokens[place * d + i]);
    }
  }
  return offsets;
}

}  // namespace chorale
