// Models as the engine reports them.
#ifndef CHORALE_ENGINE_API_MODEL_INFO_H_
#define CHORALE_ENGINE_API_MODEL_INFO_H_

#include <cstdint>
#include <string>

#include "engine/model/model_config.h"

namespace chorale {

struct ModelInfo {
  std::string name;
  ModelConfig config;
  std::string digest;
  int64_t parameters = 0;
  bool is_default = false;
  int64_t resident_bytes_per_row = 0;  // approximate size in the context pool
  std::string form = {};               // BackendModel::form
};

// A configured model that is not served, because this machine lacks something that it requires.
struct SkippedModel {
  std::string name;
  std::string reason;  // a sentence with the remedy
};

// The outcome of Engine::AddModel.
struct ModelOutcome {
  enum class Kind {
    kAdded,
    kSkipped,  // this machine lacks something that the model requires
  };
  Kind kind = Kind::kAdded;
  std::string reason = {};  // of kSkipped; SkippedModel::reason
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_MODEL_INFO_H_
