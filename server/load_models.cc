#include "server/load_models.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/model_folders.h"

namespace chorale {

absl::StatusOr<std::vector<Model>> LoadModels(const std::vector<std::string>& entries,
                                              absl::FunctionRef<bool()> stopped) {
  std::vector<Model> models;
  for (const std::string& folder : FindModelFolders(entries)) {
    if (stopped()) return absl::CancelledError("the models are not needed any more");
    absl::StatusOr<Model> model = LoadModel(folder);
    if (!model.ok()) {
      std::error_code error;
      const bool no_model =
          !std::filesystem::exists(std::filesystem::path(folder) / "config.json", error);
      return absl::Status(
          model.status().code(),
          absl::StrCat("cannot load the model in ", folder, ": ", model.status().message(),
                       no_model ? "; a model's folder has a config.json, a folder of models has "
                                  "such folders"
                                : ""));
    }
    models.push_back(*std::move(model));
  }
  return models;
}

}  // namespace chorale
