// The contents of a model's config.json. Immutable after parsing.
#ifndef CHORALE_ENGINE_MODEL_MODEL_CONFIG_H_
#define CHORALE_ENGINE_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// How data are normalised before the model sees them, and samples and densities scaled back.
enum class Normalization {
  kNone,
  kZScore,  // subtract the context's mean, divide by its standard deviation (1 if that is 0)
};

// What a model gets beside a context's columns.
enum class SeasonColumn {
  kNone,
  kPhase,  // where a season is found, the phase of each row in it (engine/data/season.h)
};

struct ModelConfig {
  std::string model_type;      // "ar_tabpfn"
  std::string row_encoder;     // "feature_mean", the default, or "cell_attention"
  int64_t d_model = 0;         // D
  int64_t n_heads = 0;         // H, divides D
  int64_t n_kv_heads = 0;      // Hkv, divides H; equal to H when the file does not say
  int64_t n_layers = 0;        // L
  int64_t d_ff = 0;            // Dff
  int64_t num_components = 0;  // M
  int64_t buffer_size = 0;     // K: buffer positions the model was trained with
  int64_t num_features = 0;    // F it was trained with; informative for "feature_mean"
  int64_t max_features = 0;    // most features of one table; 0 when the encoder has no limit
  float std_min = 0;
  float std_max = 0;
  float layer_norm_eps = 1e-5f;
  // Of the row encoder "cell_attention"; zero with any other.
  int64_t encoder_width = 0;           // E, of a cell
  int64_t encoder_heads = 0;           // divides E
  int64_t encoder_induced_points = 0;  // I: learned queries that summarise a column
  int64_t encoder_row_layers = 0;
  int64_t encoder_pooled_tokens = 0;  // P: learned queries that pool a row
  Normalization normalize_x = Normalization::kNone;
  Normalization normalize_y = Normalization::kNone;
  SeasonColumn season_column = SeasonColumn::kNone;
  std::string notice;  // optional sentence for users, e.g. that the weights are random

  int64_t head_dim() const { return d_model / n_heads; }
  int64_t kv_width() const { return n_kv_heads * head_dim(); }
};

// Parses and validates the text of a config.json. InvalidArgument names the key and the limit.
// Unknown keys are refused, so that a misspelt one is not silently ignored.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json);

}  // namespace chorale

#endif  // CHORALE_ENGINE_MODEL_MODEL_CONFIG_H_
