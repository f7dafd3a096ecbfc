#include "engine/context/registered_context.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace chorale {

void ServedModel::SetWeights(std::shared_ptr<const BackendModel> made) {
  info.form = made->form();
  kv_format = made->kv_format();
  weights = std::move(made);
}

absl::Status ModelNotServed(const std::string& context, const std::string& model) {
  return absl::FailedPreconditionError(absl::StrCat("context '", context, "' belongs to model '",
                                                    model, "', which the server does not serve"));
}

absl::StatusOr<ContextData> MakeContextData(const Dataset& dataset,
                                            const FeatureTransform& transform) {
  ASSIGN_OR_RETURN(FeatureMatrix features, transform.Apply(dataset.features));
  ContextData data;
  data.features = std::move(features);
  data.y.reserve(dataset.y.size());
  // Adding zero turns a negative zero into zero, as the store does: a context has the same data
  // whether it was read or just registered.
  for (const double y : dataset.y) data.y.push_back(transform.ContextToModel(y + 0.0));
  return data;
}

}  // namespace chorale
