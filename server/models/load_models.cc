#include "server/models/load_models.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/config/mistakes.h"
#include "server/models/model_folders.h"

namespace chorale {
namespace {

absl::Status CannotLoad(const std::string& folder, const absl::Status& why) {
  std::error_code error;
  const bool no_model =
      !std::filesystem::exists(std::filesystem::path(folder) / "config.json", error);
  return absl::Status(why.code(),
                      absl::StrCat("cannot load the model in ", folder, ": ", why.message(),
                                   no_model ? "; a model folder contains a config.json, and a "
                                              "folder of models contains model folders"
                                            : ""));
}

}  // namespace

absl::StatusOr<std::vector<Model>> LoadModels(const std::vector<std::string>& entries,
                                              absl::FunctionRef<bool()> stopped) {
  std::vector<Model> models;
  std::map<std::string, std::string> folders;  // by the model's name
  Mistakes mistakes;
  absl::StatusCode code = absl::StatusCode::kOk;  // of the first
  const auto add = [&](const absl::Status& status) {
    mistakes.Add(status);
    if (code == absl::StatusCode::kOk) code = status.code();
  };
  for (const std::string& folder : FindModelFolders(entries)) {
    if (stopped()) return absl::CancelledError("the models are no longer needed");
    absl::StatusOr<Model> model = LoadModel(folder);
    if (!model.ok()) {
      add(CannotLoad(folder, model.status()));
      continue;
    }
    const auto [other, is_new] = folders.emplace(model->name, folder);
    if (!is_new) {
      add(absl::InvalidArgumentError(absl::StrCat("two models have the name '", model->name,
                                                  "': in ", other->second, " and ", folder)));
    }
    // Of those that cannot be served together one mistake after the other needs no memory.
    if (mistakes.empty()) models.push_back(*std::move(model));
  }
  if (!mistakes.empty()) return absl::Status(code, mistakes.ToStatus().message());
  return models;
}

}  // namespace chorale
