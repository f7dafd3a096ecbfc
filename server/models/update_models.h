// Changes the set of models that a running engine serves.
#ifndef CHORALE_SERVER_MODELS_UPDATE_MODELS_H_
#define CHORALE_SERVER_MODELS_UPDATE_MODELS_H_

#include <vector>

#include "absl/status/status.h"
#include "engine/api/engine.h"
#include "engine/model/model.h"

namespace chorale {

// Log the models that are now served, and the models that are skipped.
void LogModel(const ModelInfo& model);
void LogSkipped(const std::vector<SkippedModel>& models);

// Adds the new models, makes the first of `models` the default, then removes served models that are
// not in `models`. An error changes nothing: the backend rejects a model, two models have the same
// name, `models` is empty, or a model has the name of a served model but other content. (Contexts
// belong to the content of a model: to replace a model, remove it, reload, and add the new model,
// or give the new model another name.)
//
// A new model that requires something that this machine lacks (kSkipped of Engine::AddModel) is
// skipped, logged and reported by Engine::SkippedModels, and the other changes are applied; the
// first of the other models is the default. It is an error if `models` contains no other model.
//
// BLOCKING. Thread contract: one thread at a time changes an engine's models.
absl::Status UpdateModels(const std::vector<Model>& models, Engine* engine);

}  // namespace chorale

#endif  // CHORALE_SERVER_MODELS_UPDATE_MODELS_H_
