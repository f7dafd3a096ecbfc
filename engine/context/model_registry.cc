#include "engine/context/model_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"

namespace chorale {

absl::Status NoSuchModel(const std::string& name) {
  return MakeError(ErrorReason::kModelNotFound, absl::StrCat("no model has the name '", name, "'"));
}

absl::StatusOr<std::unique_ptr<ModelRegistry>> ModelRegistry::Create(
    const std::vector<Model>& models) {
  if (models.empty()) return absl::InvalidArgumentError("an engine needs at least one model");
  auto registry = std::make_unique<ModelRegistry>();
  for (const Model& model : models) {
    if (model.name.empty()) return absl::InvalidArgumentError("a model has no name");
    if (!registry->Add(MakeServed(model)).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("two models have the name '", model.name, "'"));
    }
  }
  return registry;
}

ModelRegistry::Pointer ModelRegistry::MakeServed(const Model& model) {
  auto served = std::make_shared<ServedModel>();
  served->info = {model.name, model.config, model.digest, model.parameters};
  return served;
}

ModelRegistry::Models::const_iterator ModelRegistry::Place(const std::string& name) const {
  return std::find_if(models_.begin(), models_.end(),
                      [&](const Pointer& model) { return model->info.name == name; });
}

absl::Status ModelRegistry::Add(Pointer model) {
  MutexLock lock(&mutex_);
  if (Place(model->info.name) != models_.end()) {
    return absl::AlreadyExistsError(
        absl::StrCat("a model with the name '", model->info.name, "' is already served"));
  }
  models_.push_back(std::move(model));
  return absl::OkStatus();
}

absl::StatusOr<ModelRegistry::Pointer> ModelRegistry::Remove(const std::string& name) {
  MutexLock lock(&mutex_);
  const auto place = Place(name);
  if (place == models_.end()) return NoSuchModel(name);
  if (models_.size() == 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", name, "' is the only model; add another model first"));
  }
  Pointer model = *place;
  model->removed = true;
  models_.erase(place);
  return model;
}

absl::Status ModelRegistry::Skip(const std::string& name, const std::string& reason) {
  RETURN_IF_ERROR(Remove(name).status());
  MutexLock lock(&mutex_);
  skipped_.push_back({name, reason});
  return absl::OkStatus();
}

absl::Status ModelRegistry::SetDefault(const std::string& name) {
  MutexLock lock(&mutex_);
  const auto place = models_.begin() + (Place(name) - models_.begin());
  if (place == models_.end()) return NoSuchModel(name);
  std::rotate(models_.begin(), place, place + 1);
  return absl::OkStatus();
}

ModelRegistry::Pointer ModelRegistry::Find(const std::string& name) const {
  MutexLock lock(&mutex_);
  if (name.empty()) return models_.front();
  const auto place = Place(name);
  return place == models_.end() ? nullptr : *place;
}

std::vector<ModelRegistry::Pointer> ModelRegistry::models() const {
  MutexLock lock(&mutex_);
  return models_;
}

std::vector<SkippedModel> ModelRegistry::skipped() const {
  MutexLock lock(&mutex_);
  return skipped_;
}

void ModelRegistry::SetSkipped(std::vector<SkippedModel> models) {
  MutexLock lock(&mutex_);
  skipped_ = std::move(models);
}

}  // namespace chorale
