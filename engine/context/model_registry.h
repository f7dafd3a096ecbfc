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

// Names of models. A model that is removed lives on for those who hold it, but is not found.
//
// Thread-safe.
class ModelRegistry {
 public:
  using Pointer = std::shared_ptr<ServedModel>;

  // InvalidArgument for no models at all, or two of one name.
  static absl::StatusOr<std::unique_ptr<ModelRegistry>> Create(const std::vector<Model>& models);

  // A model that nobody finds yet. Its weights are the engine thread's to set.
  static Pointer MakeServed(const Model& model);

  // AlreadyExists when a model of that name is served.
  absl::Status Add(Pointer model);
  // Marks the model as removed, and returns it. If it was the default, the first of the others is.
  // NotFound; FailedPrecondition for the only model.
  absl::StatusOr<Pointer> Remove(const std::string& name);
  // Removes the model, and adds it to skipped(). NotFound; FailedPrecondition for the only model.
  absl::Status Skip(const std::string& name, const std::string& reason);
  // NotFound.
  absl::Status SetDefault(const std::string& name);

  // Null when there is none of that name; an empty name is the default model.
  Pointer Find(const std::string& name) const;
  // All that are served; the first one is the default.
  std::vector<Pointer> models() const;

  // See Engine.
  std::vector<SkippedModel> skipped() const;
  void SetSkipped(std::vector<SkippedModel> models);

 private:
  using Models = std::vector<Pointer>;

  Models::const_iterator Place(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Models models_ ABSL_GUARDED_BY(mutex_);  // the first one is the default
  std::vector<SkippedModel> skipped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_MODEL_REGISTRY_H_
