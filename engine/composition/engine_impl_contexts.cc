// The methods of EngineImpl for contexts.
#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/notification.h"
#include "base/status_macros.h"
#include "engine/composition/engine_impl.h"
#include "engine/context/registration.h"
#include "engine/session/density_session.h"
#include "engine/session/predict_session.h"
#include "engine/session/request_preparation.h"
#include "engine/session/sample_session.h"
#include "engine/session/warm_session.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

constexpr absl::Duration kUsesStoredEvery = absl::Minutes(5);
constexpr int64_t kMostExpired = 1000;  // contexts that are deleted at a time

std::optional<Replacement> ReplacementOf(const RegisterRequest& request) {
  if (!request.replace) return std::nullopt;
  return Replacement{request.etag};
}

// Replaces the details that the request sets; with `replace`, all. InvalidArgument if the expiry is
// not in the future.
absl::Status SetDetails(const RegisterRequest& request, absl::Time now, ContextDetails* details) {
  if (request.expires.has_value() && *request.expires <= now) {
    return InvalidField("spec.expire_time", "must be in the future");
  }
  if (request.replace) *details = ContextDetails();
  if (!request.description.empty()) details->description = request.description;
  if (!request.labels.empty()) details->labels = request.labels;
  if (request.expires.has_value()) details->expires = *request.expires;
  if (request.ttl.has_value()) details->expires = now + *request.ttl;
  return absl::OkStatus();
}

// The details of a registered context with the same content after the request. Aborted if they
// change and the context has another etag than the request. A request with a ttl may be a retry
// after a lost response: then nothing but the expiry changes, and the etag is not compared.
absl::StatusOr<ContextDetails> ChangedDetails(const ContextRecord& record,
                                              const RegisterRequest& request, absl::Time now) {
  ContextDetails details = record.details;
  RETURN_IF_ERROR(SetDetails(request, now, &details));
  ContextDetails without_ttl = details;
  if (request.ttl.has_value()) without_ttl.expires = record.details.expires;
  if (!request.etag.empty() && without_ttl != record.details && request.etag != EtagOf(record)) {
    return MakeError(ErrorReason::kEtagMismatch,
                     absl::StrCat("context '", record.name, "' has another etag"));
  }
  return details;
}

// Whether the contexts of a list, or their order, depend on the times of their last use.
bool UsesLastUse(const ContextQuery& query) {
  return query.order == ContextField::kLastUsed ||
         absl::c_any_of(query.conditions, [](const ContextCondition& condition) {
           return condition.field == ContextField::kLastUsed;
         });
}

}  // namespace

absl::StatusOr<RegisterOutcome> EngineImpl::Validate(const RegisterRequest& request,
                                                     Registration registration,
                                                     const ServedModel& model,
                                                     const StoreQuota& quota) {
  ContextRecord& record = registration.record;
  ASSIGN_OR_RETURN(const PutOutcome outcome,
                   store_->CheckPut(record, quota, ReplacementOf(request)));
  const Estimate estimate = EstimateEncoding(model, record.shape(), *backend_);
  std::vector<ColumnNote> notes = NotesOf(registration, model.info.config);
  if (outcome != PutOutcome::kCreated) {
    ASSIGN_OR_RETURN(ContextRecord earlier, store_->Get(record.tenant, record.name));
    if (outcome == PutOutcome::kUnchanged) {
      ASSIGN_OR_RETURN(earlier.details,
                       ChangedDetails(earlier, request, options_.clock->TimeOfDay()));
      record = std::move(earlier);
    } else {
      record.created = earlier.created;
      record.last_used = earlier.last_used;
    }
  }
  return RegisterOutcome{InfoOf(std::move(record)), outcome, std::move(notes), estimate};
}

absl::StatusOr<RegisterOutcome> EngineImpl::Register(const std::string& tenant,
                                                     const RegisterRequest& request,
                                                     const Dataset& dataset,
                                                     const StoreQuota& quota) {
  if (draining_) return DrainingError();
  const std::string& name = request.context;
  const std::shared_ptr<const ServedModel> served = models_->Find(request.model);
  if (served == nullptr) return NoSuchModel(request.model);
  ASSIGN_OR_RETURN(Registration registration,
                   PrepareRegistration(tenant, name, *served, dataset, limits_.Get(), *backend_,
                                       Pools().context));
  const absl::Time now = options_.clock->TimeOfDay();
  RETURN_IF_ERROR(SetDetails(request, now, &registration.record.details));
  if (request.validate_only) return Validate(request, std::move(registration), *served, quota);
  MutexLock lock(&ChangesOf(tenant, name));
  ASSIGN_OR_RETURN(const PutOutcome outcome, Store(request, registration, quota));
  const bool pinned = outcome == PutOutcome::kReplaced && DropReplaced(tenant, name);
  std::vector<ColumnNote> notes = NotesOf(registration, served->info.config);
  ContextRecord record = std::move(registration.record);
  if (outcome == PutOutcome::kUnchanged) {
    ASSIGN_OR_RETURN(ContextRecord earlier, store_->Get(tenant, name));
    ASSIGN_OR_RETURN(record, UpdateDetails(std::move(earlier), request, now));
  } else {
    if (outcome == PutOutcome::kReplaced) {
      // The times of the context stay. If they cannot be read, it is replaced anyway.
      absl::StatusOr<ContextRecord> stored = store_->Get(tenant, name);
      if (stored.ok()) record = *std::move(stored);
    }
    HoldRegistered(record, served, dataset, std::move(registration.transform));
  }
  if (pinned) PinAgain(tenant, name);
  return RegisterOutcome{InfoOf(std::move(record)), outcome, std::move(notes), std::nullopt};
}

absl::StatusOr<PutOutcome> EngineImpl::Store(const RegisterRequest& request,
                                             const Registration& registration,
                                             const StoreQuota& quota) {
  const ContextRecord& record = registration.record;
  absl::StatusOr<PutOutcome> outcome =
      store_->Put(record, registration.bytes, quota, ReplacementOf(request));
  if (outcome.ok() || !request.replace) return outcome;
  // A call that failed may nevertheless have replaced the context.
  const absl::StatusOr<ContextRecord> now = store_->Get(record.tenant, record.name);
  if (now.ok() && now->digest == record.digest && now->model == record.model &&
      DropReplaced(record.tenant, record.name)) {
    PinAgain(record.tenant, record.name);
  }
  return outcome;
}

bool EngineImpl::DropReplaced(const std::string& tenant, const std::string& name) {
  const auto known = registry_.Find(tenant, name);
  registry_.Invalidate(tenant, name, ContextRegistry::Cause::kReplaced);
  if (encoded_ != nullptr) encoded_->Remove(tenant, name);
  inbox_->Push(command::PurgeDeleted());
  return known != nullptr && known->pinned;
}

void EngineImpl::PinAgain(const std::string& tenant, const std::string& name) {
  Warm({.tenant = tenant}, {.context = name, .residency = Residency::kPinned},
       [name](const absl::StatusOr<ContextInfo>& info) {
         if (info.ok()) return;
         spdlog::warn("context '{}' was replaced, and is no longer pinned: {}", name,
                      info.status().ToString());
       });
}

void EngineImpl::HoldRegistered(const ContextRecord& record,
                                std::shared_ptr<const ServedModel> model, const Dataset& dataset,
                                FeatureTransform transform) {
  if (record.dataset_bytes > options_.max_registered_bytes) return;
  auto context = MakeContext(record, std::move(model), dataset, std::move(transform));
  if (context != nullptr) registry_.AddRegistered(std::move(context));
}

std::shared_ptr<RegisteredContext> EngineImpl::MakeContext(const ContextRecord& record,
                                                           std::shared_ptr<const ServedModel> model,
                                                           const Dataset& dataset,
                                                           FeatureTransform transform) const {
  absl::StatusOr<ContextData> data = MakeContextData(dataset, transform);
  if (!data.ok()) return nullptr;
  auto context = std::make_shared<RegisteredContext>();
  context->record = record;
  context->transform = std::move(transform);
  context->append_starts = dataset.append_starts;
  context->memory_seed = MemorySeed(record, dataset);
  context->resident_bytes = backend_->ContextBytes(model->info.config, record.shape());
  context->model = std::move(model);
  context->data = std::make_unique<ContextData>(*std::move(data));
  return context;
}

absl::StatusOr<ContextInfo> EngineImpl::GetContext(const std::string& tenant,
                                                   const std::string& name) {
  ASSIGN_OR_RETURN(ContextRecord record, store_->Get(tenant, name));
  return InfoOf(std::move(record));
}

absl::StatusOr<ContextInfoPage> EngineImpl::ListContexts(const std::string& tenant,
                                                         const ContextQuery& query,
                                                         PageLimits limits,
                                                         const std::string& page_token) {
  if (UsesLastUse(query)) StoreUses();
  ASSIGN_OR_RETURN(ContextPage page, store_->List(tenant, query, limits, page_token));
  ContextInfoPage infos;
  infos.next_page_token = std::move(page.next_page_token);
  for (ContextRecord& record : page.records) infos.contexts.push_back(InfoOf(std::move(record)));
  return infos;
}

Mutex& EngineImpl::ChangesOf(const std::string& tenant, const std::string& name) {
  return changes_[absl::HashOf(tenant, name) % changes_.size()];
}

absl::StatusOr<ContextRecord> EngineImpl::UpdateDetails(ContextRecord record,
                                                        const RegisterRequest& request,
                                                        absl::Time now) {
  ASSIGN_OR_RETURN(ContextDetails details, ChangedDetails(record, request, now));
  if (details == record.details) return record;
  RETURN_IF_ERROR(store_->UpdateDetails(record.tenant, record.name, details, now));
  if (auto known = registry_.Find(record.tenant, record.name)) known->SetDetails(details, now);
  record.details = std::move(details);
  record.updated = now;
  return record;
}

absl::Status EngineImpl::DeleteContext(const std::string& tenant, const std::string& name,
                                       const DeleteTerms& terms) {
  MutexLock lock(&ChangesOf(tenant, name));
  absl::Status deleted;
  if (!terms.etag.empty()) {
    const absl::StatusOr<ContextRecord> record = store_->Get(tenant, name);
    deleted = record.status();
    if (record.ok() && EtagOf(*record) != terms.etag) {
      return MakeError(ErrorReason::kEtagMismatch,
                       absl::StrCat("context '", name, "' has another etag"));
    }
  }
  if (deleted.ok()) deleted = DeleteHeld(tenant, name);
  return terms.allow_missing && absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

absl::Status EngineImpl::DeleteHeld(const std::string& tenant, const std::string& name) {
  absl::Status deleted = store_->Delete(tenant, name);
  // A call that failed may nevertheless have deleted the context.
  const bool gone = deleted.ok() || absl::IsNotFound(store_->Get(tenant, name).status());
  if (gone) {
    registry_.Invalidate(tenant, name);
    uses_.Forget(tenant, name);
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
  if (record.appended_rows == 0 || backend_->appends()) {
    info.resident_bytes = ResidentBytes(record.model, record.shape());
  }
  record.last_used = std::max(record.last_used, uses_.LastUse(record.tenant, record.name));
  info.record = std::move(record);
  return info;
}

int64_t EngineImpl::ResidentBytes(const std::string& model, const ContextShape& shape) {
  const std::shared_ptr<const ServedModel> served = model.empty() ? nullptr : models_->Find(model);
  if (served == nullptr || (shape.reduced() && !backend_->memory_sets())) return 0;
  return backend_->ContextBytes(served->info.config, shape);
}

absl::StatusOr<std::vector<ContextSize>> EngineImpl::NewestContexts(int64_t limit) {
  ASSIGN_OR_RETURN(std::vector<ContextSummary> newest, store_->ListNewest(limit));
  std::vector<ContextSize> sizes;
  sizes.reserve(newest.size());
  for (ContextSummary& context : newest) {
    sizes.push_back({std::move(context.tenant), std::move(context.name),
                     ResidentBytes(context.model, context.shape)});
  }
  return sizes;
}

// ---- Look-ups -----------------------------------------------------------------------------------

void EngineImpl::LookUp(const LookUpCaller& caller, std::shared_ptr<CallControl> control,
                        const std::string& tenant, const std::string& context,
                        std::shared_ptr<const Preparation> preparation) {
  auto job = [this, caller, control, tenant, context, preparation] {
    if (control->ended || control->cancelled) return;
    auto loaded = loader_.Load(tenant, context, *preparation);
    if (!loaded.ok()) {
      inbox_->Push(command::LookedUp{caller.session, std::move(loaded).status(), nullptr});
      return;
    }
    absl::StatusOr<PreparedRequest> prepared = preparation->Prepare(*loaded);
    if (prepared.ok() && preparation->LocalRows((*loaded)->record) > 0) {
      auto table = loader_.LoadTable(*loaded);
      if (table.ok()) {
        MakePart(caller, control, *std::move(prepared), *std::move(table),
                 preparation->LocalRows((*loaded)->record));
      } else if ((*loaded)->replaced) {
        LookUp(caller, control, tenant, context, preparation);
      } else {
        inbox_->Push(command::LookedUp{caller.session, std::move(table).status(), nullptr});
      }
      return;
    }
    if (prepared.ok() && caller.uses) {
      registry_.Release(**loaded);
      uses_.Note(tenant, context, options_.clock->TimeOfDay());
    }
    inbox_->Push(command::LookedUp{caller.session, std::move(prepared), *loaded});
  };
  queues_.loader->Add(std::move(job), caller.client);
}

void EngineImpl::MakePart(const LookUpCaller& caller, std::shared_ptr<CallControl> control,
                          PreparedRequest prepared, std::shared_ptr<const ContextData> table,
                          int64_t local_rows) {
  auto request = std::make_shared<PreparedRequest>(std::move(prepared));
  auto job = [this, caller, control = std::move(control), request, table = std::move(table),
              local_rows] {
    if (control->ended || control->cancelled) return;
    const ContextRecord& record = request->context->record;
    if (caller.uses) uses_.Note(record.tenant, record.name, options_.clock->TimeOfDay());
    request->context = loader_.MakePart(request->context, *table, request->query_rows, local_rows);
    inbox_->Push(command::LookedUp{caller.session, std::move(*request), nullptr});
  };
  queues_.parts->Add(std::move(job), caller.client);
}

void EngineImpl::RequestRead(const std::shared_ptr<const RegisteredContext>& context) {
  const std::string& tenant = context->record.tenant;
  queues_.loader->Add(
      [this, context] {
        inbox_->Push(command::DataRead{context, loader_.ReadData(*context)});
      },
      tenant);
}

// ---- Upkeep --------------------------------------------------------------------------------

void EngineImpl::Upkeep() {
  DeleteExpired(options_.clock->TimeOfDay());
  const absl::Time now = options_.clock->Now();
  if (now - uses_stored_ < kUsesStoredEvery) return;
  uses_stored_ = now;
  StoreUses();
}

void EngineImpl::DeleteExpired(absl::Time now) {
  const absl::StatusOr<std::vector<ContextKey>> expired = store_->ListExpired(now, kMostExpired);
  if (!expired.ok()) {
    spdlog::warn("expired contexts cannot be deleted: {}", expired.status().ToString());
    return;
  }
  for (const ContextKey& key : *expired) {
    MutexLock lock(&ChangesOf(key.tenant, key.name));
    const auto known = registry_.Find(key.tenant, key.name);
    if (known != nullptr && known->calls > 0) continue;
    // A registration may have changed the expiry meanwhile.
    const absl::StatusOr<ContextRecord> record = store_->Get(key.tenant, key.name);
    if (!record.ok() || record->details.expires > now) continue;
    const absl::Status deleted = DeleteHeld(key.tenant, key.name);
    if (deleted.ok()) {
      spdlog::info("context '{}' of tenant '{}' has expired and was deleted", key.name, key.tenant);
    } else {
      spdlog::warn("context '{}' of tenant '{}' has expired and cannot be deleted: {}", key.name,
                   key.tenant, deleted.ToString());
    }
  }
}

void EngineImpl::StoreUses() {
  const std::vector<ContextUse> uses = uses_.Take();
  if (absl::Status stored = store_->NoteUses(uses); !stored.ok()) {
    uses_.Restore(uses);
    spdlog::warn("the times at which contexts were used cannot be stored: {}", stored.ToString());
  }
}

}  // namespace chorale
