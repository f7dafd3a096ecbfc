// Tables that are larger than those on which a model was trained.
#ifndef CHORALE_ENGINE_DATA_TRAINING_LIMITS_H_
#define CHORALE_ENGINE_DATA_TRAINING_LIMITS_H_

#include <cstdint>

#include "engine/data/column_note.h"
#include "engine/model/model_config.h"

namespace chorale {

// Returns a warning that names the limits of the model's training which a context with `rows` rows
// and `features` features exceeds; empty if it exceeds none, or if they are not known. `features`
// excludes dropped columns (FeatureTransform::used_features).
ColumnNote TrainingNote(int64_t rows, int64_t features, const ModelConfig& config);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TRAINING_LIMITS_H_
