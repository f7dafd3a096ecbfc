#include "server/update_models.h"

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

// The models that are to be added.
absl::StatusOr<std::vector<const Model*>> NewModels(const std::vector<Model>& models,
                                                    const Engine& engine) {
  if (models.empty()) return absl::InvalidArgumentError("no model is left");
  std::map<std::string, std::string> served;  // digests by name
  for (const Engine::ModelInfo& info : engine.Models()) served[info.name] = info.digest;
  std::set<std::string> names;
  std::vector<const Model*> added;
  for (const Model& model : models) {
    if (!names.insert(model.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("two models are called '", model.name, "'"));
    }
    const auto found = served.find(model.name);
    if (found == served.end()) {
      added.push_back(&model);
    } else if (found->second != model.digest) {
      return absl::FailedPreconditionError(
          absl::StrCat("the files of model '", model.name,
                       "' have changed while it is served: give the new one another name, or "
                       "remove it and reload before it comes back"));
    }
  }
  return added;
}

}  // namespace

void LogModel(const Model& model) {
  LogEvent(spdlog::level::info, "model_loaded",
           {{"model", model.name}, {"parameters", model.parameters}, {"digest", model.digest}});
}

absl::Status UpdateModels(const std::vector<Model>& models, Engine* engine) {
  const absl::StatusOr<std::vector<const Model*>> added = NewModels(models, *engine);
  RETURN_IF_ERROR(added.status());
  std::vector<const Model*> done;
  for (const Model* model : *added) {
    const absl::Status status = engine->AddModel(*model);
    if (!status.ok()) {
      for (const Model* earlier : done) engine->RemoveModel(earlier->name).IgnoreError();
      return absl::Status(status.code(), absl::StrCat("model '", model->name,
                                                      "' cannot be served: ", status.message()));
    }
    done.push_back(model);
  }
  for (const Model* model : done) LogModel(*model);
  RETURN_IF_ERROR(engine->SetDefaultModel(models.front().name));
  std::set<std::string> names;
  for (const Model& model : models) names.insert(model.name);
  for (const Engine::ModelInfo& info : engine->Models()) {
    if (names.contains(info.name)) continue;
    RETURN_IF_ERROR(engine->RemoveModel(info.name));
    LogEvent(spdlog::level::info, "model_removed", {{"model", info.name}, {"digest", info.digest}});
  }
  return absl::OkStatus();
}

}  // namespace chorale
