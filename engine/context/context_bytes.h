// Checks whether a context can ever be resident, and estimates the memory of its encoding.
#ifndef CHORALE_ENGINE_CONTEXT_CONTEXT_BYTES_H_
#define CHORALE_ENGINE_CONTEXT_CONTEXT_BYTES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/backend/backend.h"
#include "engine/data/memory_set.h"
#include "engine/model/model_config.h"

namespace chorale {

// Returns OK if a context of this shape fits into a context pool of `context_pool_bytes`, and if
// the workspace of its encoding fits into the backend's empty encode pool. Otherwise returns
// LimitExceeded(field, ...) with the required and the available bytes.
// REQUIRES: the backend has memory sets, or the context is not reduced.
absl::Status ValidateContextBytes(absl::string_view field, const ModelConfig& config,
                                  const ContextShape& shape, const Backend& backend,
                                  int64_t context_pool_bytes);

// Returns FailedPrecondition with the reason MEMORY_SET_UNSUPPORTED and this text about the field
// if the context is reduced and the backend has no memory sets.
absl::Status CheckMemorySet(absl::string_view field, absl::string_view text,
                            const ContextShape& shape, const Backend& backend);

// Returns FailedPrecondition with the reason APPEND_UNSUPPORTED and this field if rows were
// appended to the context since it was encoded as a whole, and the backend does not support this.
absl::Status CheckAppends(absl::string_view field, int64_t appended_rows, const Backend& backend);

// Returns an estimate of the bytes of tokens, keys and values that an encoding holds outside the
// pools.
int64_t EncodingTokenBytes(const ModelConfig& config, const ContextShape& shape);

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_BYTES_H_
