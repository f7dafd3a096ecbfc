// The models that an engine serves.
#ifndef CHORALE_ENGINE_CONTEXT_MODEL_REGISTRY_H_
#define CHORALE_ENGINE_CONTEXT_MODEL_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/context/registered_context.h"

namespace chorale {

// The set of models is fixed before the engine starts, and thread-safe to read after that.
class ModelRegistry {
 public:
  // InvalidArgument for no models at all, or two of one name.
  static absl::StatusOr<std::unique_ptr<ModelRegistry>> Create(const std::vector<Model>& models);

  // Null when there is none of that name; an empty name is the default model.
  const ServedModel* Find(const std::string& name) const;
  const std::vector<std::unique_ptr<ServedModel>>& models() const { return models_; }

 private:
  std::vector<std::unique_ptr<ServedModel>> models_;  // the first one is the default
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_MODEL_REGISTRY_H_
