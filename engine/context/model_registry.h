// The models that an engine serves.
#ifndef CHORALE_ENGINE_CONTEXT_MODEL_REGISTRY_H_
#define CHORALE_ENGINE_CONTEXT_MODEL_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "engine/api/model_info.h"
#include "engine/context/registered_context.h"
#include "engine/model/model.h"

namespace chorale {

// NotFound, with the reason MODEL_NOT_FOUND.
absl::Status NoSuchModel(const std::string& name);

// Models by name. A removed model is no longer found, but remains valid for its holders.
//
// Thread-safe.
class ModelRegistry {
 public:
  using Pointer = std::shared_ptr<ServedModel>;

  // Returns InvalidArgument if there are no models, if a model has no name, or if two models have
  // the same name.
  static absl::StatusOr<std::unique_ptr<ModelRegistry>> Create(const std::vector<Model>& models);

  // Returns a model that is not yet registered. Only the engine thread may set its weights.
  static Pointer MakeServed(const Model& model);

  // Returns AlreadyExists if a model of that name is served.
  absl::Status Add(Pointer model);
  // Marks the model as removed, and returns it. If it was the default, the first of the remaining
  // models becomes the default. Returns NotFound if no model has this name, and FailedPrecondition
  // for the only model.
  absl::StatusOr<Pointer> Remove(const std::string& name);
  // Removes the model, and adds it to skipped(). Returns the same errors as Remove.
  absl::Status Skip(const std::string& name, const std::string& reason);
  // Returns NotFound if no model has this name.
  absl::Status SetDefault(const std::string& name);

  // Returns null if no model has this name. An empty name selects the default model.
  Pointer Find(const std::string& name) const;
  // Returns all served models; the first is the default.
  std::vector<Pointer> models() const;

  // See Engine.
  std::vector<SkippedModel> skipped() const;
  void SetSkipped(std::vector<SkippedModel> models);

 private:
  using Models = std::vector<Pointer>;

  Models::const_iterator Place(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Models models_ ABSL_GUARDED_BY(mutex_);  // the first is the default
  std::vector<SkippedModel> skipped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_MODEL_REGISTRY_H_
