// Checks whether a context can ever be resident.
#ifndef CHORALE_ENGINE_CONTEXT_CONTEXT_BYTES_H_
#define CHORALE_ENGINE_CONTEXT_CONTEXT_BYTES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/backend/backend.h"
#include "engine/model/model_config.h"

namespace chorale {

// Returns OK if a context of `rows` rows fits into a context pool of `context_pool_bytes`, and if
// the workspace of its encoding fits into the backend's empty encode pool. Otherwise returns
// InvalidField(field, ...) with the required and the available bytes.
absl::Status ValidateContextBytes(absl::string_view field, const ModelConfig& config, int64_t rows,
                                  const Backend& backend, int64_t context_pool_bytes);

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_BYTES_H_
