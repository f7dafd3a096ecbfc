// The methods of EngineImpl for rows that are appended to contexts.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "engine/composition/engine_impl.h"
#include "engine/context/appended_content.h"
#include "engine/session/warm_session.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

// A context with more appends is encoded anew, whatever the share of its appended rows is.
constexpr size_t kManyAppends = 64;
// The file, the dataset before and after the append, its encoding, and the data of the model.
constexpr int64_t kCopiesOfDataset = 5;
// Appends to larger datasets are prepared one at a time.
constexpr int64_t kLargeDataset = int64_t{8} << 20;

// Adds to `bytes` while it lives.
class HeldBytes {
 public:
  HeldBytes(std::atomic<int64_t>* bytes, int64_t held) : bytes_(bytes), held_(held) {
    *bytes_ += held_;
  }
  ~HeldBytes() { *bytes_ -= held_; }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

 private:
  std::atomic<int64_t>* const bytes_;
  const int64_t held_;
};

absl::Status ChangedMeanwhile(const std::string& context) {
  return absl::AbortedError(
      absl::StrCat("context '", context, "' was changed while it was encoded anew"));
}

}  // namespace

// ---- Append ------------------------------------------------------------------------------------

absl::StatusOr<AppendOutcome> EngineImpl::Append(const std::string& tenant,
                                                 const AppendRequest& request, const Table& rows,
                                                 const StoreQuota& quota) {
  if (draining_) return DrainingError();
  if (!appends()) {
    return MakeError(ErrorReason::kAppendUnsupported,
                     "the server's device cannot append rows to contexts; register all rows again, "
                     "with replace");
  }
  MutexLock lock(&ChangesOf(tenant, request.context));
  ASSIGN_OR_RETURN(ContextRecord earlier, store_->Get(tenant, request.context));
  std::optional<MutexLock> alone;
  if (earlier.dataset_bytes > kLargeDataset) alone.emplace(&large_append_);
  const HeldBytes held(&append_bytes_, kCopiesOfDataset * earlier.dataset_bytes);
  ASSIGN_OR_RETURN(const ReadContext stored, ReadStored(std::move(earlier)));
  ASSIGN_OR_RETURN(PreparedAppend prepared,
                   PrepareAppend(stored, request, rows, limits_.Get(), *backend_, Pools().context));
  AppendOutcome outcome;
  outcome.already_appended = prepared.already_appended;
  outcome.rows = prepared.rows;
  outcome.notes = std::move(prepared.notes);
  if (prepared.already_appended) {
    outcome.context = InfoOf(stored.record);
    return outcome;
  }
  ContextRecord record = prepared.content->registration.record;
  if (request.validate_only) {
    RETURN_IF_ERROR(store_->CheckPut(record, quota, Replacement{EtagOf(stored.record)}).status());
    outcome.estimate = prepared.estimate;
  } else {
    const size_t appends = prepared.content->dataset.append_starts.size();
    RETURN_IF_ERROR(ReplaceContent(stored, *std::move(prepared.content), quota, stored.in_memory));
    metrics_->AppendedRows(outcome.rows);
    EncodeAnewIfNeeded(record, appends, stored.in_memory.get());
  }
  outcome.context = InfoOf(std::move(record));
  return outcome;
}

absl::StatusOr<ReadContext> EngineImpl::ReadStored(ContextRecord record) {
  ReadContext stored;
  if (!record.model.empty()) stored.model = models_->Find(record.model);
  if (stored.model == nullptr) return ModelNotServed(record.name, record.model);
  ASSIGN_OR_RETURN(stored.bytes, store_->ReadDataset(record.tenant, record.name));
  const auto known = registry_.Find(record.tenant, record.name);
  if (known != nullptr && known->record.digest == record.digest && known->model == stored.model) {
    stored.in_memory = known;
  }
  stored.record = std::move(record);
  return stored;
}

absl::Status EngineImpl::PutInstead(const ContextRecord& earlier, const Registration& registration,
                                    const StoreQuota& quota, bool* changed) {
  const ContextRecord& record = registration.record;
  const absl::StatusOr<PutOutcome> outcome =
      store_->Put(record, registration.bytes, quota, Replacement{EtagOf(earlier)});
  *changed = outcome.ok();
  if (outcome.ok()) return absl::OkStatus();
  // A call that failed may nevertheless have replaced the context.
  const absl::StatusOr<ContextRecord> now = store_->Get(record.tenant, record.name);
  *changed = now.ok() && now->digest == record.digest && now->model == record.model;
  return outcome.status();
}

absl::Status EngineImpl::ReplaceContent(const ReadContext& stored, NewContent content,
                                        const StoreQuota& quota,
                                        std::shared_ptr<const RegisteredContext> predecessor) {
  const ContextRecord& record = content.registration.record;
  bool changed = false;
  absl::Status put = PutInstead(stored.record, content.registration, quota, &changed);
  if (!changed) return put;
  const auto known = registry_.Find(record.tenant, record.name);
  const bool pinned = known != nullptr && known->pinned;
  std::shared_ptr<RegisteredContext> context;
  const bool in_use = predecessor != nullptr && predecessor->IsInUse();
  if (in_use || record.dataset_bytes <= options_.max_registered_bytes) {
    context = MakeContext(record, stored.model, content.dataset,
                          std::move(content.registration.transform));
  }
  if (predecessor != nullptr) {
    predecessor->awaits_successor = context != nullptr;
    if (!predecessor->registered) predecessor->deleted = true;  // it was encoded anew
  }
  if (context == nullptr) {
    DropReplaced(record.tenant, record.name);
  } else {
    context->predecessors = PredecessorsFrom(predecessor);
    registry_.Supersede(context, ContextRegistry::Holding::kHeld);
    if (encoded_ != nullptr) encoded_->Remove(record.tenant, record.name);
    inbox_->Push(command::Succeed{context, [this, context] { registry_.Release(*context); }});
  }
  if (pinned) PinAgain(record.tenant, record.name);
  return put;
}

// ---- Encoding anew -----------------------------------------------------------------------------

void EngineImpl::EncodeAnewIfNeeded(const ContextRecord& record, size_t appends,
                                    const RegisteredContext* earlier) {
  const double base_rows = static_cast<double>(record.rows - record.appended_rows);
  if (appends <= kManyAppends &&
      static_cast<double>(record.appended_rows) <= options_.max_appended_share * base_rows) {
    return;
  }
  const int64_t limit = earlier != nullptr ? earlier->max_tenant_bytes.load() : 0;
  encodings_anew_.Request({record.tenant, record.name},
                          {.tenant = record.tenant, .max_resident_bytes = limit}, std::nullopt);
}

void EngineImpl::EncodeAnew(const EncodingsAnew::Run& run) {
  absl::StatusOr<std::shared_ptr<Anew>> anew = PrepareAnewRun(run);
  if (!anew.ok()) {
    // There is nothing to do for a context that does not exist.
    const bool gone = absl::IsNotFound(anew.status());
    EndAnew(run, {anew.status(), gone ? std::nullopt : std::optional(EncodedAnewOutcome::kFailed)});
  } else if (*anew == nullptr) {
    EndAnew(run, {});
  } else if (const auto& used = (*anew)->before.in_memory; used != nullptr && used->IsInUse()) {
    MakeAnewResident(run, *std::move(anew));
  } else {
    // Calls do not use the context now; the next one encodes it.
    EndAnew(run, FinishAnew(anew->get()));
  }
}

absl::StatusOr<std::shared_ptr<EngineImpl::Anew>> EngineImpl::PrepareAnewRun(
    const EncodingsAnew::Run& run) {
  const auto& [tenant, name] = run.context;
  auto anew = std::make_shared<Anew>();
  {
    MutexLock lock(&ChangesOf(tenant, name));
    ASSIGN_OR_RETURN(ContextRecord record, store_->Get(tenant, name));
    if (record.appended_rows == 0) return nullptr;
    ASSIGN_OR_RETURN(anew->before, ReadStored(std::move(record)));
  }
  const ContextRecord& before = anew->before.record;
  const HeldBytes held(&append_bytes_, kCopiesOfDataset * before.dataset_bytes);
  ASSIGN_OR_RETURN(NewContent content, PrepareAnew(anew->before, *backend_, Pools().context));
  anew->context = MakeContext(content.registration.record, anew->before.model, content.dataset,
                              content.registration.transform);
  if (anew->context == nullptr) return absl::InternalError("the rows cannot be converted");
  anew->context->encodes_anew = before.digest;
  anew->context->registered = false;
  anew->before.bytes.clear();
  anew->registration = std::move(content.registration);
  return anew;
}

void EngineImpl::MakeAnewResident(const EncodingsAnew::Run& run, std::shared_ptr<Anew> anew) {
  anew->submitted = true;
  const uint64_t id = next_call_++;
  CallStart start{id, run.control, options_.clock->Now(),
                  CallContext{.tenant = run.context.tenant,
                              .share = run.share,
                              .max_resident_bytes = run.max_resident_bytes}};
  auto resident = [this, run, anew](const absl::StatusOr<ContextInfo>& info) {
    queues_.anew->Add([this, run, anew, status = info.status()] {
      EndAnew(run, status.ok() ? FinishAnew(anew.get()) : GiveUpAnew(*anew, status));
    });
  };
  // It stays resident until its registration, although nothing pins it between the two threads.
  auto request = std::make_shared<const WarmRequest>(
      WarmRequest{.context = run.context.name, .residency = Residency::kPinned});
  auto session = std::make_unique<WarmSession>(std::move(start), &environment_, request, resident);
  if (!loop_.TryEnterQueue(*session, run.control)) {
    EndAnew(run, GiveUpAnew(*anew, ExhaustedRetryAfter(
                                       ErrorReason::kQueueFull,
                                       "the queue has no room for an encoding (--max_queued)",
                                       options_.retry_delay)));
    return;
  }
  inbox_->Push(command::Submit{
      std::move(session), PreparedRequest{.context = anew->context, .query_rows = {}},
      [this, id, name = run.context.name] {
        inbox_->Push(command::LookedUp{id, ChangedMeanwhile(name), nullptr});
      }});
}

EncodingsAnew::End EngineImpl::FinishAnew(Anew* anew) {
  const absl::StatusOr<bool> replaced = ReplaceByAnew(anew);
  if (!replaced.ok()) return GiveUpAnew(*anew, replaced.status());
  if (!*replaced) return GiveUpAnew(*anew, ChangedMeanwhile(anew->before.record.name));
  return {absl::OkStatus(), EncodedAnewOutcome::kReplaced};
}

EncodingsAnew::End EngineImpl::GiveUpAnew(const Anew& anew, const absl::Status& why) {
  anew.context->deleted = true;
  inbox_->Push(command::PurgeDeleted());
  return {why, absl::IsAborted(why) ? EncodedAnewOutcome::kChanged : EncodedAnewOutcome::kFailed};
}

void EngineImpl::EndAnew(const EncodingsAnew::Run& run, const EncodingsAnew::End& end) {
  if (end.outcome == EncodedAnewOutcome::kFailed && !absl::IsCancelled(end.status)) {
    spdlog::warn("context '{}' was not encoded anew: {}", run.context.name, end.status.ToString());
  }
  encodings_anew_.OnEnd(end);
}

absl::StatusOr<bool> EngineImpl::ReplaceByAnew(Anew* anew) {
  const ContextRecord& before = anew->before.record;
  const std::shared_ptr<RegisteredContext>& context = anew->context;
  MutexLock lock(&ChangesOf(before.tenant, before.name));
  absl::StatusOr<ContextRecord> now = store_->Get(before.tenant, before.name);
  if (absl::IsNotFound(now.status())) return false;
  RETURN_IF_ERROR(now.status());
  if (now->created != before.created || now->model != before.model) return false;
  if (now->digest != before.digest) {
    ASSIGN_OR_RETURN(const ReadContext stored, ReadStored(*std::move(now)));
    const HeldBytes held(&append_bytes_, kCopiesOfDataset * stored.record.dataset_bytes);
    ASSIGN_OR_RETURN(std::optional<NewContent> content,
                     PrepareAppendedSince(before, anew->registration.transform, stored, *backend_,
                                          Pools().context));
    if (!content.has_value()) return false;
    // Its keys and values are the prefix of those of the registration that follows.
    RETURN_IF_ERROR(ReplaceContent(stored, *std::move(content), StoreQuota(), context));
    return true;
  }
  ContextRecord& record = anew->registration.record;
  record.details = now->details;
  record.last_used = now->last_used;
  bool changed = false;
  const absl::Status put = PutInstead(*now, anew->registration, StoreQuota(), &changed);
  if (!changed) return put;
  context->SetDetails(record.details, record.updated);
  const auto known = registry_.Find(record.tenant, record.name);
  const bool pinned = known != nullptr && known->pinned;
  if (anew->submitted) {
    registry_.Supersede(context, ContextRegistry::Holding::kNotHeld);
    if (encoded_ != nullptr) encoded_->Remove(record.tenant, record.name);
    inbox_->Push(command::EncodedAnew{context, pinned});
    return true;
  }
  // Only this thread has the context so far.
  context->encodes_anew.clear();
  context->registered = true;
  DropReplaced(record.tenant, record.name);
  if (record.dataset_bytes <= options_.max_registered_bytes) registry_.AddRegistered(context);
  if (pinned) PinAgain(record.tenant, record.name);
  return true;
}

}  // namespace chorale
