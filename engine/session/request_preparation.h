// The preparations of all kinds of requests.
#ifndef CHORALE_ENGINE_SESSION_REQUEST_PREPARATION_H_
#define CHORALE_ENGINE_SESSION_REQUEST_PREPARATION_H_

#include <memory>

#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/context/preparation.h"
#include "engine/data/limits.h"

namespace chorale {

// The context and its model must be the expected ones, the request must be within the limits
// (ValidateRequest), the context must fit its pool, and the targets must have the context's
// columns. `limits` and `backend` must outlive the preparation, which uses only the const byte
// counts of the backend.
std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const PredictRequest> request,
                                                   const Limits* limits, const Backend* backend);
std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const SampleRequest> request,
                                                   const Limits* limits, const Backend* backend);
std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const LogDensityRequest> request,
                                                   const Limits* limits, const Backend* backend);
// The context must fit its pool.
std::shared_ptr<const Preparation> MakePreparation(
    const std::shared_ptr<const WarmRequest>& request, const Limits* limits,
    const Backend* backend);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_REQUEST_PREPARATION_H_
