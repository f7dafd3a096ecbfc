// Finds the folders of the models that --models lists.
#ifndef CHORALE_SERVER_MODELS_MODEL_FOLDERS_H_
#define CHORALE_SERVER_MODELS_MODEL_FOLDERS_H_

#include <string>
#include <vector>

namespace chorale {

// Returns the folders of the models. An entry with a config.json is a model folder; another entry
// stands for its subfolders that contain a config.json, in the order of their names, except
// subfolders whose names begin with a dot. An entry that is neither is returned unchanged: loading
// it reports the error.
std::vector<std::string> FindModelFolders(const std::vector<std::string>& entries);

// Changes when the models of these entries may have changed. Reads no model.
std::string ModelsVersion(const std::vector<std::string>& entries);

}  // namespace chorale

#endif  // CHORALE_SERVER_MODELS_MODEL_FOLDERS_H_
