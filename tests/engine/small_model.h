// A model for tests of the engine.
#ifndef CHORALE_TESTS_ENGINE_SMALL_MODEL_H_
#define CHORALE_TESTS_ENGINE_SMALL_MODEL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

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

// A context of so many rows, which take 64 bytes each on a fake backend.
inline std::shared_ptr<RegisteredContext> NewContext(std::shared_ptr<ServedModel> model,
                                                     int64_t rows) {
  auto context = std::make_shared<RegisteredContext>();
  context->record.rows = rows;
  context->model = std::move(model);
  context->resident_bytes = rows * 64;
  return context;
}

// Zeros, in the form of the context's data.
inline ContextData ZerosFor(const RegisteredContext& context) {
  const int64_t rows = context.record.rows;
  return {{rows, 1, std::vector<float>(rows)}, std::vector<float>(rows)};
}

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SMALL_MODEL_H_
