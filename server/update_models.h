// Makes a running engine serve another set of models.
#ifndef CHORALE_SERVER_UPDATE_MODELS_H_
#define CHORALE_SERVER_UPDATE_MODELS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/model/model.h"

namespace chorale {

// Log models that are now served, and such that are not.
void LogModel(const Engine::ModelInfo& model);
void LogLeftOut(const std::vector<LeftOutModel>& models);

// Adds the models that are not served, makes the first of `models` the default, then removes those
// that are served but not among `models`. An error changes nothing: a model that the backend
// refuses, two of one name, none at all, or a model with the name of one that is served and other
// content. (Contexts belong to a model's content: to replace it, remove it, reload, and add the new
// one, or give the new one another name.)
//
// A new model that needs something which is not on this machine (FailedPrecondition of
// Engine::AddModel) is left out, logged and returned, and all else is done; the first of the others
// is the default. It is an error if no other is among `models`.
//
// BLOCKING. Thread contract: one thread at a time changes an engine's models.
absl::StatusOr<std::vector<LeftOutModel>> UpdateModels(const std::vector<Model>& models,
                                                       Engine* engine);

}  // namespace chorale

#endif  // CHORALE_SERVER_UPDATE_MODELS_H_
