// The preparations of all kinds of requests.
#ifndef CHORALE_ENGINE_SESSION_REQUEST_PREPARATION_H_
#define CHORALE_ENGINE_SESSION_REQUEST_PREPARATION_H_

#include <memory>

#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/context/preparation.h"
#include "engine/data/limits.h"

namespace chorale {

// Return a preparation that checks these conditions: context and model have the expected digests,
// the request is within the limits (ValidateRequest), the context fits into its pool, and the query
// rows have the columns of the context. `limits` and `backend` must outlive the preparation, which
// uses only the const byte counts of the backend.
std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const PredictRequest> request,
                                                   const Limits* limits, const Backend* backend);
std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const SampleRequest> request,
                                                   const Limits* limits, const Backend* backend);
std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const SummarizeRequest> request,
                                                   const Limits* limits, const Backend* backend);
std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const LogDensityRequest> request,
                                                   const Limits* limits, const Backend* backend);
// Returns a preparation that checks whether the context fits into its pool.
std::shared_ptr<const Preparation> MakePreparation(
    const std::shared_ptr<const WarmRequest>& request, const Limits* limits,
    const Backend* backend);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_REQUEST_PREPARATION_H_
