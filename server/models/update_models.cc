#include "server/models/update_models.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

// The models that are to be added.
absl::StatusOr<std::vector<const Model*>> NewModels(const std::vector<Model>& models,
                                                    const Engine& engine) {
  if (models.empty()) return absl::InvalidArgumentError("the configuration contains no model");
  std::map<std::string, std::string> served;  // digests by name
  for (const ModelInfo& info : engine.Models()) served[info.name] = info.digest;
  std::set<std::string> names;
  std::vector<const Model*> added;
  for (const Model& model : models) {
    if (!names.insert(model.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two models have the name '", model.name, "'"));
    }
    const auto found = served.find(model.name);
    if (found == served.end()) {
      added.push_back(&model);
    } else if (found->second != model.digest) {
      return absl::FailedPreconditionError(
          absl::StrCat("the files of model '", model.name,
                       "' have changed while it is served: give the new model another name, or "
                       "remove the model, reload, and add it again"));
    }
  }
  return added;
}

absl::Status NotServed(const std::string& model, const absl::Status& why) {
  return absl::Status(why.code(),
                      absl::StrCat("model '", model, "' cannot be served: ", why.message()));
}

// Adds the models, and returns the models that were skipped. An error changes nothing.
absl::StatusOr<std::vector<SkippedModel>> AddModels(const std::vector<const Model*>& models,
                                                    Engine* engine) {
  std::vector<const Model*> done;
  std::vector<SkippedModel> skipped;
  for (const Model* model : models) {
    const absl::StatusOr<ModelOutcome> outcome = engine->AddModel(*model);
    if (!outcome.ok()) {
      for (const Model* earlier : done) engine->RemoveModel(earlier->name).IgnoreError();
      return NotServed(model->name, outcome.status());
    }
    if (outcome->kind == ModelOutcome::Kind::kAdded) {
      done.push_back(model);
    } else {
      skipped.push_back({model->name, outcome->reason});
    }
  }
  return skipped;
}

}  // namespace

void LogModel(const ModelInfo& model) {
  std::vector<LogField> fields = {
      {"model", model.name}, {"parameters", model.parameters}, {"digest", model.digest}};
  if (!model.form.empty()) fields.push_back({"form", model.form});
  LogEvent(spdlog::level::info, "model_loaded", fields);
}

void LogSkipped(const std::vector<SkippedModel>& models) {
  for (const SkippedModel& model : models) {
    LogEvent(spdlog::level::err, "model_skipped",
             {{"model", model.name}, {"reason", model.reason}});
  }
}

absl::Status UpdateModels(const std::vector<Model>& models, Engine* engine) {
  ASSIGN_OR_RETURN(const std::vector<const Model*> added, NewModels(models, *engine));
  ASSIGN_OR_RETURN(std::vector<SkippedModel> skipped, AddModels(added, engine));
  if (skipped.size() == models.size()) {  // nothing was added
    return NotServed(skipped.back().name, absl::FailedPreconditionError(skipped.back().reason));
  }
  const auto is_skipped = [&](const Model& model) {
    return std::any_of(skipped.begin(), skipped.end(),
                       [&](const SkippedModel& one) { return one.name == model.name; });
  };
  const auto first = std::find_if_not(models.begin(), models.end(), is_skipped);
  RETURN_IF_ERROR(engine->SetDefaultModel(first->name));
  std::set<std::string> names;
  for (const Model& model : models) names.insert(model.name);
  std::set<std::string> new_names;
  for (const Model* model : added) new_names.insert(model->name);
  for (const ModelInfo& info : engine->Models()) {
    if (new_names.contains(info.name)) LogModel(info);
    if (names.contains(info.name)) continue;
    RETURN_IF_ERROR(engine->RemoveModel(info.name));
    LogEvent(spdlog::level::info, "model_removed", {{"model", info.name}, {"digest", info.digest}});
  }
  LogSkipped(skipped);
  engine->SetSkippedModels(std::move(skipped));
  return absl::OkStatus();
}

}  // namespace chorale
