#include "engine/context/model_registry.h"

#include "absl/strings/str_cat.h"

namespace chorale {

absl::StatusOr<std::unique_ptr<ModelRegistry>> ModelRegistry::Create(
    const std::vector<Model>& models) {
  if (models.empty()) return absl::InvalidArgumentError("an engine needs at least one model");
  auto registry = std::make_unique<ModelRegistry>();
  for (const Model& model : models) {
    if (model.name.empty()) return absl::InvalidArgumentError("a model has no name");
    if (registry->Find(model.name) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("two models are called '", model.name, "'"));
    }
    auto served = std::make_unique<ServedModel>();
    served->info = {model.name, model.config, model.digest, model.parameters,
                    /*is_default=*/registry->models_.empty()};
    registry->models_.push_back(std::move(served));
  }
  return registry;
}

const ServedModel* ModelRegistry::Find(const std::string& name) const {
  for (const auto& model : models_) {
    if (name.empty() || model->info.name == name) return model.get();
  }
  return nullptr;
}

}  // namespace chorale
