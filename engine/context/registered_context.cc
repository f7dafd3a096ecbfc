#include "engine/context/registered_context.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "engine/data/append_rows.h"
#include "engine/data/dataset_codec.h"
#include "engine/data/feature_rows.h"

namespace chorale {

absl::StatusOr<ModelOutcome> ServedModel::AddTo(Backend* backend, const Model& model) {
  absl::StatusOr<std::shared_ptr<const BackendModel>> added = backend->AddModel(model);
  if (absl::IsUnavailable(added.status())) {
    return ModelOutcome{ModelOutcome::Kind::kSkipped, std::string(added.status().message())};
  }
  RETURN_IF_ERROR(added.status());
  weights = *std::move(added);
  info.form = weights->form();
  kv_format = weights->kv_format();
  return ModelOutcome();
}

absl::Status ModelNotServed(const std::string& context, const std::string& model) {
  return MakeError(ErrorReason::kModelNotServed,
                   absl::StrCat("context '", context, "' belongs to model '", model,
                                "', which the server does not serve"));
}

ContextRecord RegisteredContext::CurrentRecord() const {
  ContextRecord current = record;
  MutexLock lock(&mutex_);
  if (update_.has_value()) {
    current.details = update_->details;
    current.updated = update_->updated;
  }
  return current;
}

void RegisteredContext::SetDetails(const ContextDetails& details, absl::Time updated) const {
  MutexLock lock(&mutex_);
  update_ = Update{details, updated};
}

absl::StatusOr<ContextData> MakeContextData(const Dataset& dataset,
                                            const FeatureTransform& transform) {
  ASSIGN_OR_RETURN(FeatureMatrix features, transform.Apply(dataset.features));
  ContextData data;
  data.features = std::move(features);
  data.y.reserve(dataset.y.size());
  // Adding zero converts a negative zero to zero, as the store does. So a context has the same data
  // whether it was read or just registered.
  for (const double y : dataset.y) data.y.push_back(transform.ContextToModel(y + 0.0));
  return data;
}

std::vector<std::weak_ptr<const RegisteredContext>> PredecessorsFrom(
    const std::shared_ptr<const RegisteredContext>& before) {
  std::vector<std::weak_ptr<const RegisteredContext>> predecessors;
  if (before == nullptr) return predecessors;
  predecessors.push_back(before);
  for (const auto& earlier : before->predecessors) {
    if (!earlier.expired()) predecessors.push_back(earlier);
  }
  return predecessors;
}

bool RegisteredContext::IsInUse() const {
  return state != ContextState::kNotResident ||
         absl::c_any_of(predecessors, [](const std::weak_ptr<const RegisteredContext>& earlier) {
           const auto before = earlier.lock();
           return before != nullptr && before->state != ContextState::kNotResident;
         });
}

uint64_t MemorySeed(const ContextRecord& record, const Dataset& dataset) {
  if (!record.shape().reduced()) return 0;
  const std::string digest = dataset.append_starts.empty()
                                 ? record.digest
                                 : ContentDigest(EncodeDataset(*BaseRows(dataset)));
  return ContentSeed("memory set", digest);
}

ContextData SelectRows(const ContextData& data, absl::Span<const int32_t> rows) {
  ContextData selected;
  selected.features = SelectRows(data.features, rows);
  selected.y.reserve(rows.size());
  for (const int32_t row : rows) selected.y.push_back(data.y[row]);
  return selected;
}

}  // namespace chorale
