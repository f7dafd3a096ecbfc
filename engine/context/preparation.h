// How a request is checked and turned into the model's numbers, before the engine thread sees it.
#ifndef CHORALE_ENGINE_CONTEXT_PREPARATION_H_
#define CHORALE_ENGINE_CONTEXT_PREPARATION_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/context/registered_context.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model_config.h"
#include "engine/request.h"
#include "engine/store/context_store.h"

namespace chorale {

// A request that was checked against its context and turned into the model's numbers.
struct PreparedRequest {
  std::shared_ptr<const RegisteredContext> context;
  FeatureMatrix targets;
};

// In two parts, so that a request that cannot be served costs no reading of a dataset. Both are
// pure: any thread may call them.
struct Preparation {
  // Everything that the context's record and its model tell.
  std::function<absl::Status(const ContextRecord&, const ModelConfig&)> check;
  // The rest. REQUIRES: `check` was Ok for this context.
  std::function<absl::StatusOr<PreparedRequest>(std::shared_ptr<const RegisteredContext>)> finish;

  absl::Status Check(const RegisteredContext& context) const {
    return check(context.record, context.model->info.config);
  }
};

// For requests with targets: `validate` compares the request with the limits and the model;
// besides, the context must fit into its pool, and the targets must have the context's columns.
// `backend` is used for its const byte counts only.
Preparation PrepareTargets(std::shared_ptr<const RequestBase> request, const Backend* backend,
                           std::function<absl::Status(const ModelConfig&)> validate);

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_PREPARATION_H_
