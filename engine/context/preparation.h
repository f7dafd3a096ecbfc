// How a request is checked and turned into the model's numbers, before the engine thread sees it.
#ifndef CHORALE_ENGINE_CONTEXT_PREPARATION_H_
#define CHORALE_ENGINE_CONTEXT_PREPARATION_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/model_info.h"
#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/context/registered_context.h"
#include "engine/data/column_note.h"
#include "engine/data/feature_transform.h"
#include "engine/data/limits.h"
#include "engine/model/model_config.h"
#include "engine/store/context_store.h"

namespace chorale {

// A request that was checked against its context and turned into the model's numbers.
struct PreparedRequest {
  std::shared_ptr<const RegisteredContext> context;
  FeatureMatrix targets;
  std::vector<ColumnNote> notes = {};  // of the targets' columns, then of the context's target
};

// In two parts, so that a request that cannot be served costs no reading of a dataset. Both are
// pure: any thread may call them.
struct Preparation {
  // Everything that the context's record and its model tell, but for the columns.
  std::function<absl::Status(const ContextRecord&, const ModelInfo&)> check;
  // Whether the columns are the context's, which `finish` checks as well; null: there are none.
  std::function<absl::Status(const ContextRecord&)> check_columns;
  // The rest. REQUIRES: `check` was Ok for this context.
  std::function<absl::StatusOr<PreparedRequest>(std::shared_ptr<const RegisteredContext>)> finish;

  absl::Status Check(const RegisteredContext& context) const {
    return check(context.record, context.model->info);
  }
};

// For requests with targets. The check calls `validate`, which compares the request with the limits
// and the model; the context and its model must be the expected ones, the context must fit its
// pool, and the targets must have the context's columns. Only the const byte counts of `backend`
// are used. The notes say what the target is snapped to only if `tells_of_snapping`.
Preparation PrepareTargets(std::shared_ptr<const RequestBase> request, const Backend* backend,
                           std::function<absl::Status(const ModelConfig&)> validate,
                           bool tells_of_snapping);

// The same with one of the functions of engine/session/request_validation.h.
template <typename Request>
Preparation PrepareTargets(std::shared_ptr<const Request> request, const Limits* limits,
                           const Backend* backend,
                           absl::Status (*validate)(const Request&, const ModelConfig&,
                                                    const Limits&, const Backend&)) {
  return PrepareTargets(
      request, backend,
      [request, limits, backend, validate](const ModelConfig& config) {
        return validate(*request, config, *limits, *backend);
      },
      TellsOfSnapping(*request));
}

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_PREPARATION_H_
