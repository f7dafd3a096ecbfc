// Validates shapes, limits and buffer sizes of requests without an engine. Each error is an
// InvalidField that names the field as in the proto, and the limit.
#ifndef CHORALE_ENGINE_SESSION_REQUEST_VALIDATION_H_
#define CHORALE_ENGINE_SESSION_REQUEST_VALIDATION_H_

#include "absl/status/status.h"
#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/data/limits.h"
#include "engine/model/model_config.h"

namespace chorale {

// The functions do not validate the context; engine/session/request_preparation.h does.
absl::Status ValidateRequest(const PredictRequest& request, const ModelConfig& config,
                             const Limits& limits, const Backend& backend);
absl::Status ValidateRequest(const SampleRequest& request, const ModelConfig& config,
                             const Limits& limits, const Backend& backend);
absl::Status ValidateRequest(const SummarizeRequest& request, const ModelConfig& config,
                             const Limits& limits, const Backend& backend);
absl::Status ValidateRequest(const LogDensityRequest& request, const ModelConfig& config,
                             const Limits& limits, const Backend& backend);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_REQUEST_VALIDATION_H_
