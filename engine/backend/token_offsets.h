// The offsets that convert a row encoding into a token, by the token's role.
#ifndef CHORALE_ENGINE_BACKEND_TOKEN_OFFSETS_H_
#define CHORALE_ENGINE_BACKEND_TOKEN_OFFSETS_H_

#include <cstdint>
#include <vector>

#include "engine/model/model.h"

namespace chorale {

// Rows of TokenOffsets.
struct TokenOffset {
  static constexpr int32_t kQueryRow = 0;
  static constexpr int32_t kContext = 1;
  // A buffer token at position i: ar_tokens[i mod K].
  static int32_t Buffer(int64_t position, const ModelConfig& config) {
    return static_cast<int32_t>(2 + position % config.buffer_size);
  }
};

// [2 + K, D]: query row marker; context marker + y bias; buffer marker + y bias + ar_tokens[i].
std::vector<float> TokenOffsets(const EmbeddingWeights& weights, const ModelConfig& config);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_TOKEN_OFFSETS_H_
