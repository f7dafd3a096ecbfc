// Makes a running engine serve another set of models.
#ifndef CHORALE_SERVER_UPDATE_MODELS_H_
#define CHORALE_SERVER_UPDATE_MODELS_H_

#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "engine/model/model.h"

namespace chorale {

// Logs a model that is now served.
void LogModel(const Model& model);

// Adds the models that are not served, makes the first of `models` the default, then removes those
// that are served but not among `models`. An error changes nothing: a model that the backend
// refuses, two of one name, none at all, or a model with the name of one that is served and other
// content. (Contexts belong to a model's content: to replace it, remove it, reload, and add the new
// one, or give the new one another name.)
//
// BLOCKING. Thread contract: one thread at a time changes an engine's models.
absl::Status UpdateModels(const std::vector<Model>& models, Engine* engine);

}  // namespace chorale

#endif  // CHORALE_SERVER_UPDATE_MODELS_H_
