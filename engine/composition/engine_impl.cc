#include "engine/composition/engine_impl.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/notification.h"
#include "base/status_macros.h"
#include "engine/context/registration.h"
#include "engine/session/density_session.h"
#include "engine/session/predict_session.h"
#include "engine/session/request_preparation.h"
#include "engine/session/sample_estimate_session.h"
#include "engine/session/sample_session.h"
#include "engine/session/summarize_session.h"
#include "engine/session/warm_session.h"
#include "spdlog/spdlog.h"

namespace chorale {

namespace {

constexpr absl::Duration kUpkeepPeriod = absl::Minutes(1);

// Below 2^53: JSON parsers that read numbers as doubles return larger numbers inexactly.
uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) >> 11;
}

std::string NotServed(const SkippedModel& model) {
  return absl::StrCat("model '", model.name, "' cannot be served: ", model.reason);
}

// Refers only to the inbox of the engine, which drops commands that arrive after the engine has
// ended.
class CallHandle : public Call {
 public:
  CallHandle(std::shared_ptr<CallControl> control, std::shared_ptr<Inbox> inbox)
      : control_(std::move(control)), inbox_(std::move(inbox)) {}

  void Cancel() override {
    control_->cancelled = true;
    inbox_->Poke();
  }
  void Acknowledge(int64_t values) override {
    if (values <= 0) return;
    control_->acknowledged += values;
    inbox_->Poke();
  }

 private:
  const std::shared_ptr<CallControl> control_;
  const std::shared_ptr<Inbox> inbox_;
};

}  // namespace

EngineImpl::EngineImpl(const EngineOptions& options, std::unique_ptr<Backend> backend,
                       std::unique_ptr<ContextStore> store, std::unique_ptr<ModelRegistry> models,
                       std::unique_ptr<EncodedContexts> encoded, MetricsSink* metrics,
                       Queues queues)
    : options_(options),
      limits_(options.limits),
      metrics_(metrics),
      backend_(std::move(backend)),
      store_(std::move(store)),
      models_(std::move(models)),
      description_(backend_->description()),
      host_reaches_pools_(backend_->ContextMemory({}) != nullptr),
      inbox_(std::make_shared<Inbox>(options.clock)),
      registry_(options_.max_registered_bytes),
      registration_limit_(options_.max_registered_bytes),
      loader_(store_.get(), models_.get(), backend_.get(), &registry_),
      encoded_(std::move(encoded)),
      environment_{
          backend_.get(),
          metrics_,
          options_.clock,
          options_.max_slices_per_tick,
          options_.max_unacknowledged_values,
          [this](uint64_t session, std::shared_ptr<const CallControl> control,
                 const std::string& turn, std::function<SessionEnvironment::Continuation()> job) {
            RunOnSummaryThread(session, std::move(control), turn, std::move(job));
          },
          [this] { return loop_.MaySummariseAtOnce(); }},
      loop_(
          options_, backend_.get(), metrics_, inbox_,
          [this](std::shared_ptr<const RegisteredContext> context) { RequestRead(context); },
          FileAccess()),
      encodings_anew_(
          [this](const EncodingsAnew::Run& run) {
            queues_.anew->Add([this, run] { EncodeAnew(run); });
          },
          metrics_),
      queues_(std::move(queues)) {
  if (encoded_ == nullptr) return;
  store_->UseFreeDisk([this](int64_t bytes) { return encoded_->FreeDisk(bytes); });
}

EngineLoop::FileAccess EngineImpl::FileAccess() {
  if (encoded_ == nullptr) return {};
  return {[this](const RegisteredContext& context) { return encoded_->Has(context); },
          [this](ContextCache::FileTask task) {
            if (task.kind == ContextCache::FileTask::Kind::kRead) {
              encoded_->Read(std::move(task), [this](const ContextCache::ContextPointer& context,
                                                     absl::StatusOr<std::string> encoder_state) {
                inbox_->Push(command::FileRead{context, std::move(encoder_state)});
              });
            } else {
              encoded_->Write(std::move(task), [this] { inbox_->Push(command::FileWritten()); });
            }
          },
          [this] { encoded_->Stop(); }};
}

absl::Status EngineImpl::AddFirstModels(const std::vector<Model>& models) {
  for (const Model& model : models) {
    ASSIGN_OR_RETURN(const ModelOutcome outcome,
                     models_->Find(model.name)->AddTo(backend_.get(), model));
    if (outcome.kind == ModelOutcome::Kind::kAdded) continue;
    // From now on no request finds the model. The next model may become the default.
    if (!models_->Skip(model.name, outcome.reason).ok()) {  // it is the last model
      return absl::UnavailableError(NotServed({model.name, outcome.reason}));
    }
  }
  return absl::OkStatus();
}

void EngineImpl::Run(const std::vector<Model>& models,
                     const std::function<void(const absl::Status&)>& started) {
  const absl::Status status = AddFirstModels(models);
  started(status);
  if (status.ok()) loop_.Run();
  for (const auto& model : models_->models()) model->weights.reset();
}

absl::Status EngineImpl::Start(const std::vector<Model>& models) {
  Notification started;
  absl::Status status;
  // From the first call on, only the engine thread uses the backend.
  engine_thread_ = std::thread([&, this] {
    Run(models, [&](const absl::Status& outcome) {
      status = outcome;
      started.Notify();
    });
  });
  started.Wait();
  if (status.ok()) {
    upkeep_ = std::make_unique<PeriodicTask>(options_.clock, kUpkeepPeriod, [this] { Upkeep(); });
    return status;
  }
  std::string lines;
  for (const SkippedModel& model : SkippedModels()) absl::StrAppend(&lines, NotServed(model), "\n");
  return absl::Status(status.code(), absl::StrCat(lines, status.message()));
}

EngineImpl::~EngineImpl() {
  draining_ = true;
  upkeep_.reset();
  Stop();
  if (engine_thread_.joinable()) engine_thread_.join();
  queues_.anew->Stop();
  queues_.loader->Stop();
  queues_.parts->Stop();
  queues_.summary->Stop();
  StoreUses();
  if (absl::Status s = store_->Close(); !s.ok()) {
    spdlog::error("the context store was not closed cleanly: {}", s.ToString());
  }
}

std::vector<ModelInfo> EngineImpl::Models() const {
  std::vector<ModelInfo> infos;
  for (const auto& model : models_->models()) {
    infos.push_back(model->info);
    infos.back().is_default = infos.size() == 1;
    // Sizes are rounded up per layer. Therefore the size of one row is computed from many rows.
    constexpr int64_t kRows = 4096;
    infos.back().resident_bytes_per_row =
        backend_->ContextBytes(model->info.config, {.rows = kRows}) / kRows;
  }
  return infos;
}

absl::StatusOr<ModelOutcome> EngineImpl::AddModel(const Model& model) {
  if (draining_) return DrainingError();
  if (model.name.empty()) return absl::InvalidArgumentError("the model has no name");
  // Checked before the weights use memory; Add checks again.
  if (models_->Find(model.name) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("a model with the name '", model.name, "' is already served"));
  }
  std::shared_ptr<ServedModel> served = ModelRegistry::MakeServed(model);
  absl::StatusOr<ModelOutcome> outcome;
  Notification done;
  inbox_->Push(command::AddModel{&model, served.get(), &outcome, &done});
  done.Wait();
  if (!outcome.ok() || outcome->kind == ModelOutcome::Kind::kSkipped) return outcome;
  if (absl::Status status = models_->Add(served); !status.ok()) {
    // Only the engine thread may free weights.
    inbox_->Push(command::RetireModel{std::move(served)});
    return status;
  }
  return outcome;
}

absl::Status EngineImpl::RemoveModel(const std::string& name) {
  ASSIGN_OR_RETURN(std::shared_ptr<ServedModel> removed, models_->Remove(name));
  registry_.Forget(*removed);
  inbox_->Push(command::RetireModel{std::move(removed)});
  return absl::OkStatus();
}

absl::Status EngineImpl::SetDefaultModel(const std::string& name) {
  return models_->SetDefault(name);
}

// ---- Requests ------------------------------------------------------------------------------

template <typename SessionType, typename Request, typename Receiver>
std::shared_ptr<Call> EngineImpl::StartSession(CallContext call, Request request,
                                               Receiver receiver) {
  CallStart start{next_call_++, std::make_shared<CallControl>(), options_.clock->Now(),
                  std::move(call)};
  auto control = start.control;
  auto shared = std::make_shared<const Request>(std::move(request));
  auto preparation = MakePreparation(shared, &limits_.Get(), backend_.get());
  return Submit(
      std::make_unique<SessionType>(std::move(start), &environment_, shared, std::move(receiver)),
      std::move(control), shared->context, std::move(preparation));
}

std::shared_ptr<Call> EngineImpl::Warm(CallContext call, WarmRequest request,
                                       Callback<ContextInfo> done) {
  auto with_use = [this, tenant = call.tenant,
                   done = std::move(done)](absl::StatusOr<ContextInfo> info) {
    if (info.ok()) {
      ContextRecord& record = info->record;
      record.last_used = std::max(record.last_used, uses_.LastUse(tenant, record.name));
    }
    done(std::move(info));
  };
  return StartSession<WarmSession>(std::move(call), std::move(request), std::move(with_use));
}

std::shared_ptr<Call> EngineImpl::Predict(CallContext call, PredictRequest request,
                                          Callback<PredictResult> done) {
  return StartSession<PredictSession>(std::move(call), std::move(request), std::move(done));
}

std::shared_ptr<Call> EngineImpl::Sample(CallContext call, SampleRequest request,
                                         std::shared_ptr<SampleObserver> observer) {
  if (!request.seed.has_value()) request.seed = RandomSeed();
  if (request.validate_only) {
    return StartSession<SampleEstimateSession>(std::move(call), std::move(request),
                                               std::move(observer));
  }
  return StartSession<SampleSession>(std::move(call), std::move(request), std::move(observer));
}

std::shared_ptr<Call> EngineImpl::Summarize(CallContext call, SummarizeRequest request,
                                            Callback<SummarizeResult> done) {
  if (!request.seed.has_value()) request.seed = RandomSeed();
  if (request.validate_only) {
    return StartSession<SampleEstimateSession>(std::move(call), std::move(request),
                                               EstimateReceiver(std::move(done)));
  }
  return StartSession<SummarizeSession>(std::move(call), std::move(request), std::move(done));
}

std::shared_ptr<Call> EngineImpl::LogDensity(CallContext call, LogDensityRequest request,
                                             Callback<LogDensityResult> done) {
  if (!request.seed.has_value()) request.seed = RandomSeed();
  return StartSession<DensitySession>(std::move(call), std::move(request), std::move(done));
}

std::shared_ptr<Call> EngineImpl::Submit(std::unique_ptr<Session> session,
                                         std::shared_ptr<CallControl> control,
                                         const std::string& context,
                                         std::shared_ptr<const Preparation> preparation) {
  auto call = std::make_shared<CallHandle>(control, inbox_);
  const uint64_t id = session->id();
  const std::string tenant = session->tenant();
  const std::string client = session->share().client;
  if (draining_) {
    metrics_->Rejected("draining");
    inbox_->Push(command::Refuse{std::move(session), DrainingError()});
    return call;
  }
  if (!loop_.TryEnterQueue(*session, control)) {
    metrics_->Rejected("queue_full");
    inbox_->Push(command::Refuse{
        std::move(session),
        ExhaustedRetryAfter(
            ErrorReason::kQueueFull,
            absl::StrCat(options_.max_queued,
                         " requests are queued already (--max_queued); retry later"),
            options_.retry_delay)});
    return call;
  }
  std::function<void()> look_up =
      [this, caller = LookUpCaller{id, client, !session->only_validates()}, control, tenant,
       context, preparation] { LookUp(caller, control, tenant, context, preparation); };
  if (session->encodes_anew()) {
    const CallContext terms = {.tenant = tenant,
                               .share = session->share(),
                               .max_resident_bytes = session->max_resident_bytes()};
    inbox_->Push(command::Submit{std::move(session), std::nullopt, look_up});
    encodings_anew_.Request(
        {tenant, context}, terms,
        EncodingsAnew::Waiter{control, [this, id, look_up](const auto& status) {
                                if (status.ok() || absl::IsNotFound(status)) {
                                  look_up();
                                } else {
                                  inbox_->Push(command::LookedUp{id, status, nullptr});
                                }
                              }});
    return call;
  }
  // A local context is made by other threads.
  if (auto known = registry_.Find(tenant, context);
      known != nullptr && preparation->LocalRows(known->record) == 0) {
    absl::StatusOr<PreparedRequest> prepared = preparation->Prepare(known);
    if (prepared.ok() && !session->only_validates()) {
      registry_.Release(*known);
      uses_.Note(tenant, context, options_.clock->TimeOfDay());
    }
    inbox_->Push(command::Submit{std::move(session), std::move(prepared), std::move(look_up)});
    return call;
  }
  inbox_->Push(command::Submit{std::move(session), std::nullopt, look_up});
  look_up();
  return call;
}

void EngineImpl::RunOnSummaryThread(uint64_t session, std::shared_ptr<const CallControl> control,
                                    const std::string& turn,
                                    std::function<SessionEnvironment::Continuation()> job) {
  queues_.summary->Add(
      [this, session, control = std::move(control), job = std::move(job)] {
        if (control->ended || control->cancelled) return;
        const absl::Time start = options_.clock->Now();
        auto continuation = job();
        metrics_->SummaryTime(options_.clock->Now() - start);
        inbox_->Push(command::Continue{session, std::move(continuation)});
      },
      turn);
}

// ---- State ---------------------------------------------------------------------------------

EngineStats EngineImpl::Stats() const {
  EngineStats stats = loop_.stats();
  stats.tick_age = loop_.tick_age();
  stats.summary_queue = queues_.summary->waiting();
  stats.registration_bytes = registry_.held_bytes();
  stats.loading_bytes += loader_.bytes() + append_bytes_;
  return stats;
}

PoolSizes EngineImpl::Pools() const {
  return {.context = std::min<int64_t>(context_limit_, backend_->context_pool_bytes()),
          .buffer = std::min<int64_t>(buffer_limit_, backend_->buffer_pool_bytes()),
          .encode = backend_->encode_pool_bytes(),
          .host_context = backend_->host_context_pool_bytes(),
          .registration = registration_limit_};
}

void EngineImpl::LimitPools(const PoolSizes& sizes) {
  registration_limit_ = std::min(sizes.registration, options_.max_registered_bytes);
  registry_.LimitRegistered(registration_limit_);
  if (!host_reaches_pools_) return;
  context_limit_ = sizes.context;
  buffer_limit_ = sizes.buffer;
  inbox_->Push(command::LimitPools{sizes.context, sizes.buffer});
}

// ---- Life cycle ----------------------------------------------------------------------------

void EngineImpl::Drain(absl::Time deadline) {
  Notification done;
  BeginDrain(deadline, &done);
  done.Wait();
}

void EngineImpl::BeginDrain(absl::Time deadline, Notification* done) {
  draining_ = true;
  encodings_anew_.Drain();
  inbox_->Push(command::Drain{deadline, done});
}

}  // namespace chorale
