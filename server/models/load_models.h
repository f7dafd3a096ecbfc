// Loads the models that --models names.
#ifndef CHORALE_SERVER_MODELS_LOAD_MODELS_H_
#define CHORALE_SERVER_MODELS_LOAD_MODELS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/model/model.h"

namespace chorale {

// Loads the models of these entries, in this order. An error has one line for each invalid folder,
// with its name and the reason; two models with the same name are an error as well. `stopped` is
// called before each model: Cancelled once it returns true.
absl::StatusOr<std::vector<Model>> LoadModels(const std::vector<std::string>& entries,
                                              absl::FunctionRef<bool()> stopped);

}  // namespace chorale

#endif  // CHORALE_SERVER_MODELS_LOAD_MODELS_H_
