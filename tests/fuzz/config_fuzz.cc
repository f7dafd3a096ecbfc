// Any text given to the config reader is either refused or gives a configuration whose sizes fit
// together.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "engine/model/model_config.h"

namespace {

bool IsSound(const chorale::ModelConfig& config) {
  return config.d_model > 0 && config.n_heads > 0 && config.d_model % config.n_heads == 0 &&
         config.n_kv_heads > 0 && config.n_heads % config.n_kv_heads == 0 && config.n_layers > 0 &&
         config.d_ff > 0 && config.num_components > 0 && config.buffer_size > 0 &&
         config.max_features >= 0 && config.std_min >= 0 && config.std_max > 0 &&
         config.layer_norm_eps > 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<chorale::ModelConfig> config = chorale::ParseModelConfig(text);
  if (config.ok() ? !IsSound(*config) : config.status().message().empty()) std::abort();
  return 0;
}
