// The methods of EngineImpl for contexts.
#include <random>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/notification.h"
#include "base/status_macros.h"
#include "engine/composition/engine_impl.h"
#include "engine/context/registration.h"
#include "engine/session/density_session.h"
#include "engine/session/predict_session.h"
#include "engine/session/request_preparation.h"
#include "engine/session/sample_session.h"
#include "engine/session/warm_session.h"

namespace chorale {

absl::StatusOr<RegisterOutcome> EngineImpl::Register(const std::string& tenant,
                                                     const std::string& name,
                                                     const std::string& model,
                                                     const Dataset& dataset,
                                                     const StoreQuota& quota) {
  if (draining_) return DrainingError();
  const std::shared_ptr<const ServedModel> served = models_->Find(model);
  if (served == nullptr) return NoSuchModel(model);
  ASSIGN_OR_RETURN(Registration registration,
                   PrepareRegistration(tenant, name, *served, dataset, limits_.Get(), *backend_,
                                       Pools().context));
  MutexLock lock(&ChangesOf(tenant, name));
  ASSIGN_OR_RETURN(PutOutcome outcome, store_->Put(registration.record, registration.bytes, quota));
  ContextRecord record = std::move(registration.record);
  std::vector<ColumnNote> notes = registration.transform.context_notes();
  if (const ColumnNote& note = registration.transform.training_note(); !note.empty()) {
    notes.insert(notes.begin(), note);
  }
  if (outcome == PutOutcome::kUnchanged) {
    ASSIGN_OR_RETURN(ContextRecord earlier, store_->Get(tenant, name));
    record = std::move(earlier);
  } else {
    HoldRegistered(record, served, dataset, std::move(registration.transform));
  }
  return RegisterOutcome{InfoOf(std::move(record)), outcome, std::move(notes)};
}

void EngineImpl::HoldRegistered(const ContextRecord& record,
                                std::shared_ptr<const ServedModel> model, const Dataset& dataset,
                                FeatureTransform transform) {
  if (record.dataset_bytes > options_.max_registered_bytes) return;
  absl::StatusOr<ContextData> data = MakeContextData(dataset, transform);
  if (!data.ok()) return;  // the first request returns the error
  auto context = std::make_shared<RegisteredContext>();
  context->record = record;
  context->transform = std::move(transform);
  context->resident_bytes = backend_->ContextBytes(model->info.config, record.rows);
  context->model = std::move(model);
  context->data = std::make_unique<ContextData>(*std::move(data));
  registry_.AddRegistered(std::move(context));
}

absl::StatusOr<ContextInfo> EngineImpl::GetContext(const std::string& tenant,
                                                   const std::string& name) {
  ASSIGN_OR_RETURN(ContextRecord record, store_->Get(tenant, name));
  return InfoOf(std::move(record));
}

absl::StatusOr<ContextInfoPage> EngineImpl::ListContexts(const std::string& tenant,
                                                         PageLimits limits,
                                                         const std::string& page_token) {
  ASSIGN_OR_RETURN(ContextPage page, store_->List(tenant, limits, page_token));
  ContextInfoPage infos;
  infos.next_page_token = std::move(page.next_page_token);
  for (ContextRecord& record : page.records) infos.contexts.push_back(InfoOf(std::move(record)));
  return infos;
}

Mutex& EngineImpl::ChangesOf(const std::string& tenant, const std::string& name) {
  return changes_[absl::HashOf(tenant, name) % changes_.size()];
}

absl::Status EngineImpl::DeleteContext(const std::string& tenant, const std::string& name) {
  MutexLock lock(&ChangesOf(tenant, name));
  absl::Status deleted = store_->Delete(tenant, name);
  // A call that failed may nevertheless have deleted the context.
  const bool gone = deleted.ok() || absl::IsNotFound(store_->Get(tenant, name).status());
  if (gone) {
    registry_.Invalidate(tenant, name);
    if (encoded_ != nullptr) encoded_->Remove(tenant, name);
    inbox_->Push(command::PurgeDeleted());
  }
  return deleted;
}

ContextInfo EngineImpl::InfoOf(ContextRecord record) {
  ContextInfo info;
  if (auto known = registry_.Find(record.tenant, record.name);
      known != nullptr && known->record.digest == record.digest) {
    info.state = known->state;
  }
  info.resident_bytes = ResidentBytes(record.model, record.rows);
  info.record = std::move(record);
  return info;
}

int64_t EngineImpl::ResidentBytes(const std::string& model, int64_t rows) {
  const std::shared_ptr<const ServedModel> served = model.empty() ? nullptr : models_->Find(model);
  return served == nullptr ? 0 : backend_->ContextBytes(served->info.config, rows);
}

absl::StatusOr<std::vector<ContextSize>> EngineImpl::NewestContexts(int64_t limit) {
  ASSIGN_OR_RETURN(std::vector<ContextSummary> newest, store_->ListNewest(limit));
  std::vector<ContextSize> sizes;
  sizes.reserve(newest.size());
  for (ContextSummary& context : newest) {
    sizes.push_back({std::move(context.tenant), std::move(context.name),
                     ResidentBytes(context.model, context.rows)});
  }
  return sizes;
}

}  // namespace chorale
