// Floating-point operations of the model's stages, for one row: a multiply-add counts as two. Only
// matrix products and attention are counted; what is left out grows with D, not with D squared.
#ifndef CHORALE_ENGINE_BACKEND_FLOP_MODEL_H_
#define CHORALE_ENGINE_BACKEND_FLOP_MODEL_H_

#include <cstdint>

#include "engine/model/model_config.h"

namespace chorale {

// LN1(x + P x): 2 D D.
inline double MixFeaturesFlops(const ModelConfig& config) {
  return 2.0 * static_cast<double>(config.d_model * config.d_model);
}

// Wk x and Wv x: 2 * 2 D Hkv Dh.
inline double KvFlops(const ModelConfig& config) {
  return 4.0 * static_cast<double>(config.d_model * config.kv_width());
}

// Wq and Wo, 2 D D each; scores and weighted values, 2 D each per visible key; W1 and W2, 2 D Dff
// each.
inline double AttendAndFeedForwardFlops(const ModelConfig& config, double keys) {
  const double d = static_cast<double>(config.d_model);
  return 4.0 * d * d + 4.0 * d * keys + 4.0 * d * static_cast<double>(config.d_ff);
}

// The head's two maps: 2 D Dff and 2 Dff 3M.
inline double HeadFlops(const ModelConfig& config) {
  return 2.0 * static_cast<double>(config.d_ff * (config.d_model + 3 * config.num_components));
}

// One target, or with `tokens` 2 one target and one buffer token, through the whole model. In the
// last layer a buffer token only leaves its K and V.
inline double PathStepFlops(const ModelConfig& config, int tokens, double keys) {
  const double layers = static_cast<double>(config.n_layers);
  const double buffer_tokens = tokens - 1;
  return tokens * layers * MixFeaturesFlops(config) + buffer_tokens * layers * KvFlops(config) +
         (tokens * layers - buffer_tokens) * AttendAndFeedForwardFlops(config, keys) +
         HeadFlops(config);
}

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_FLOP_MODEL_H_
