#include "server/models/model_folders.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/process/reload_trigger.h"

namespace chorale {
namespace {

namespace fs = std::filesystem;

bool IsModelFolder(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.json", error);
}

std::vector<std::string> ModelFoldersIn(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const bool hidden = absl::StartsWith(entry->path().filename().string(), ".");
    if (!hidden && IsModelFolder(entry->path())) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<std::string> FindModelFolders(const std::vector<std::string>& entries) {
  std::vector<std::string> folders;
  for (const std::string& entry : entries) {
    const std::vector<std::string> within =
        IsModelFolder(entry) ? std::vector<std::string>() : ModelFoldersIn(entry);
    if (within.empty()) folders.push_back(entry);
    folders.insert(folders.end(), within.begin(), within.end());
  }
  return folders;
}

std::string ModelsVersion(const std::vector<std::string>& entries) {
  std::string version;
  for (const std::string& folder : FindModelFolders(entries)) {
    absl::StrAppend(&version, folder, "\n", FileVersion(absl::StrCat(folder, "/config.json")), "\n",
                    FileVersion(absl::StrCat(folder, "/model.safetensors")), "\n");
  }
  return version;
}

}  // namespace chorale
