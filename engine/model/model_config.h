// The contents of a model's config.json. Immutable after parsing.
#ifndef CHORALE_ENGINE_MODEL_MODEL_CONFIG_H_
#define CHORALE_ENGINE_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// The normalisation of the model's input; samples and densities are scaled back.
enum class Normalization {
  kNone,
  kZScore,  // mean 0, standard deviation 1 in the context (engine/data/feature_transform.h)
};

// The column that a model gets in addition to a context's columns.
enum class SeasonColumn {
  kNone,
  kPhase,  // if a season is found, the phase of each row (engine/data/season.h)
};

struct ModelConfig {
  std::string model_type;        // "ar_tabpfn"
  std::string row_encoder;       // "feature_mean", the default, or "cell_attention"
  int64_t d_model = 0;           // D
  int64_t n_heads = 0;           // H, divides D
  int64_t n_kv_heads = 0;        // Hkv, divides H; by default H
  int64_t n_layers = 0;          // L
  int64_t d_ff = 0;              // Dff
  int64_t num_components = 0;    // M
  int64_t buffer_size = 0;       // K: buffer positions in training
  int64_t num_features = 0;      // F in training; informative for "feature_mean"
  int64_t trained_rows = 0;      // maximum rows of a context in training; 0 if unknown
  int64_t trained_features = 0;  // maximum features in training; 0 if unknown
  int64_t max_features = 0;      // maximum features of a table; 0 if the encoder has no limit
  float std_min = 0;
  float std_max = 0;
  float layer_norm_eps = 1e-5f;
  // For the row encoder "cell_attention"; else zero.
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

// Parses and validates the text of a config.json. Returns InvalidArgument with the key and the
// limit. Rejects unknown keys, so that a misspelt key is not silently ignored.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json);

}  // namespace chorale

#endif  // CHORALE_ENGINE_MODEL_MODEL_CONFIG_H_
