// A model for tests of the engine.
#ifndef CHORALE_TESTS_ENGINE_SMALL_MODEL_H_
#define CHORALE_TESTS_ENGINE_SMALL_MODEL_H_

#include <memory>

#include "engine/context/registered_context.h"
#include "engine/model/model_config.h"

namespace chorale::testing {

// A single small layer: the FLOPs of its work are defined.
inline ModelConfig SmallConfig() {
  ModelConfig config;
  config.d_model = 8;
  config.n_heads = 1;
  config.n_kv_heads = 1;
  config.n_layers = 1;
  config.d_ff = 8;
  config.num_components = 1;
  config.buffer_size = 16;
  return config;
}

inline std::shared_ptr<ServedModel> NewServedModel() {
  auto model = std::make_shared<ServedModel>();
  model->info.config = SmallConfig();
  return model;
}

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SMALL_MODEL_H_
