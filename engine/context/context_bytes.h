// Whether a context can ever be resident.
#ifndef CHORALE_ENGINE_CONTEXT_CONTEXT_BYTES_H_
#define CHORALE_ENGINE_CONTEXT_CONTEXT_BYTES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/backend/backend.h"
#include "engine/model/model_config.h"

namespace chorale {

// OK when `context_pool_bytes` could hold a context of `rows` rows, and the backend's empty encode
// pool the workspace that encoding it takes; else InvalidField(field, ...) with the bytes needed
// and available.
absl::Status ValidateContextBytes(absl::string_view field, const ModelConfig& config, int64_t rows,
                                  const Backend& backend, int64_t context_pool_bytes);

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_BYTES_H_
