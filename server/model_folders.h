// Where the models are that --models names.
#ifndef CHORALE_SERVER_MODEL_FOLDERS_H_
#define CHORALE_SERVER_MODEL_FOLDERS_H_

#include <string>
#include <vector>

namespace chorale {

// The models' own folders. An entry with a config.json is one; another entry stands for those of
// its folders that have one, by name, without those whose names begin with a dot. An entry that is
// neither is returned as it is: loading it tells what is missing.
std::vector<std::string> FindModelFolders(const std::vector<std::string>& entries);

// Differs when the models in these entries may differ. Reads none of them.
std::string ModelsVersion(const std::vector<std::string>& entries);

}  // namespace chorale

#endif  // CHORALE_SERVER_MODEL_FOLDERS_H_
