// Loads the models that --models names.
#ifndef CHORALE_SERVER_LOAD_MODELS_H_
#define CHORALE_SERVER_LOAD_MODELS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/model/model.h"

namespace chorale {

// The models in these entries, in this order. An error has a line for each folder at fault, which
// names it and what is wrong with it: also where two models have one name. `stopped` is asked
// before each model: Cancelled once it says true.
absl::StatusOr<std::vector<Model>> LoadModels(const std::vector<std::string>& entries,
                                              absl::FunctionRef<bool()> stopped);

}  // namespace chorale

#endif  // CHORALE_SERVER_LOAD_MODELS_H_
