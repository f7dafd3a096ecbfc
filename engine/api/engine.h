// The engine: registered contexts, their residency, and the sessions that draw from them.
//
// One thread (the engine thread) schedules and launches all work on the backend; one loader thread
// reads datasets from the store. Every public method may be called from any thread. Methods marked
// BLOCKING wait for the disk; the others return immediately.
#ifndef CHORALE_ENGINE_API_ENGINE_H_
#define CHORALE_ENGINE_API_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/api/call.h"
#include "engine/api/call_context.h"
#include "engine/api/engine_options.h"
#include "engine/api/metrics_sink.h"
#include "engine/api/model_info.h"
#include "engine/api/request.h"
#include "engine/api/stats.h"
#include "engine/backend/backend.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"
#include "engine/model/model.h"
#include "engine/store/context_store.h"

namespace chorale {

class Engine {
 public:
  // Requires at least one model; the first one is the default. `metrics` must outlive the engine,
  // and may be null.
  //
  // A model that requires something that this machine lacks (Unavailable of Backend::AddModel) is
  // skipped, see SkippedModels; the first of the other models is then the default. It is an error
  // if no model remains. Any other error of a model is an error of the engine. The message of an
  // error begins with a line for each model that was skipped.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                        std::unique_ptr<Backend> backend,
                                                        std::unique_ptr<ContextStore> store,
                                                        const std::vector<Model>& models,
                                                        MetricsSink* metrics);
  // Cancels the running requests, then joins the threads and closes the store.
  virtual ~Engine() = default;

  // --- Models -------------------------------------------------------------------------------
  virtual std::vector<ModelInfo> Models() const = 0;
  // Returns the models that Create has skipped, or the models of the last SetSkippedModels.
  virtual std::vector<SkippedModel> SkippedModels() const = 0;
  virtual void SetSkippedModels(std::vector<SkippedModel> models) = 0;

  // BLOCKING, also for the engine thread: running sessions pause while it prepares the weights.
  // Requests find the model once this returns kAdded. A model that is skipped may be added later.
  // AlreadyExists if a model of the same name is served; Unavailable while draining or once the
  // device has failed; otherwise the backend's error, such as ResourceExhausted.
  virtual absl::StatusOr<ModelOutcome> AddModel(const Model& model) = 0;
  // From now on requests do not find the model: registrations get NotFound, requests for its
  // contexts FailedPrecondition. Sessions that run on it finish. Its contexts lose their keys and
  // values, but stay registered; its weights are freed when the last session ends. If it was the
  // default, the first of the remaining models is the default. NotFound; FailedPrecondition for the
  // only model.
  virtual absl::Status RemoveModel(const std::string& name) = 0;
  // NotFound.
  virtual absl::Status SetDefaultModel(const std::string& name) = 0;

  // --- Contexts -----------------------------------------------------------------------------
  // BLOCKING. Returns when the dataset is durable; with validate_only, stores nothing and returns
  // the outcome that the registration would have now. InvalidArgument, AlreadyExists, NotFound
  // (model), ResourceExhausted (disk, or the quota). With `replace`, an earlier registration of the
  // name serves until the new one is durable, requests in flight finish on it, and a context that
  // is never evicted stays so; Aborted, with the reason ETAG_MISMATCH.
  virtual absl::StatusOr<RegisterOutcome> Register(const std::string& tenant,
                                                   const RegisterRequest& request,
                                                   const Dataset& dataset,
                                                   const StoreQuota& quota) = 0;
  absl::StatusOr<RegisterOutcome> Register(const std::string& tenant, const std::string& name,
                                           const std::string& model, const Dataset& dataset) {
    return Register(tenant, RegisterRequest{.context = name, .model = model}, dataset,
                    StoreQuota());
  }
  // BLOCKING. Appends rows, whose columns are the features and the target of the context, and
  // returns when they are durable; with validate_only, stores nothing and returns the outcome that
  // the append would have now. Earlier rows keep their keys and values, and the transform of the
  // rows before the first append applies to the new rows. Requests in flight finish on the rows
  // that they began with; later requests see the new rows. InvalidArgument, NotFound,
  // ResourceExhausted (disk, or the quota); Aborted, with the reason ETAG_MISMATCH, or
  // ROW_COUNT_MISMATCH for another number of rows than `first_row`; FailedPrecondition, with the
  // reason APPEND_UNSUPPORTED, if appends() is false, or all rows together would be reduced to a
  // memory set whose policy does not allow appends (ContextShape::appendable).
  virtual absl::StatusOr<AppendOutcome> Append(const std::string& tenant,
                                               const AppendRequest& request, const Table& rows,
                                               const StoreQuota& quota) = 0;
  virtual absl::StatusOr<ContextInfo> GetContext(const std::string& tenant,
                                                 const std::string& name) = 0;  // BLOCKING
  // BLOCKING. As ContextStore::List.
  virtual absl::StatusOr<ContextInfoPage> ListContexts(const std::string& tenant,
                                                       const ContextQuery& query, PageLimits limits,
                                                       const std::string& page_token) = 0;
  absl::StatusOr<ContextInfoPage> ListContexts(const std::string& tenant, PageLimits limits,
                                               const std::string& page_token) {
    return ListContexts(tenant, ContextQuery(), limits, page_token);
  }
  // BLOCKING. Sessions that already use the context finish; its keys and values are freed when the
  // last of them ends. NotFound; Aborted, with the reason ETAG_MISMATCH.
  virtual absl::Status DeleteContext(const std::string& tenant, const std::string& name,
                                     const DeleteTerms& terms) = 0;
  absl::Status DeleteContext(const std::string& tenant, const std::string& name) {
    return DeleteContext(tenant, name, DeleteTerms());
  }
  // Makes a context resident, and calls back when it is resident or with the reason why it cannot
  // be.
  virtual std::shared_ptr<Call> Warm(CallContext call, WarmRequest request,
                                     Callback<ContextInfo> done) = 0;
  // BLOCKING. At most `limit` contexts of all tenants, the most recently registered first.
  virtual absl::StatusOr<std::vector<ContextSize>> NewestContexts(int64_t limit) = 0;

  // --- Inference ----------------------------------------------------------------------------
  // Every error, also a malformed request, arrives through the callback or observer (details as in
  // base/error_details.h):
  //   InvalidArgument    a field is wrong; the message names it and the limit; carries ErrorField
  //   NotFound           no such context
  //   FailedPrecondition the context's model is not served
  //   DataLoss           the context's dataset is damaged
  //   ResourceExhausted  queue full, or waited or would wait too long (retry later); a Sample whose
  //                      caller acknowledges nothing; carries RetryDelay. Or the context exceeds
  //                      CallContext::max_resident_bytes: carries ExceededQuota
  //   Unavailable        draining, or the device failed; see Health
  //   DeadlineExceeded, Cancelled
  virtual std::shared_ptr<Call> Predict(CallContext call, PredictRequest request,
                                        Callback<PredictResult> done) = 0;
  virtual std::shared_ptr<Call> Sample(CallContext call, SampleRequest request,
                                       std::shared_ptr<SampleObserver> observer) = 0;
  virtual std::shared_ptr<Call> Summarize(CallContext call, SummarizeRequest request,
                                          Callback<SummarizeResult> done) = 0;
  virtual std::shared_ptr<Call> LogDensity(CallContext call, LogDensityRequest request,
                                           Callback<LogDensityResult> done) = 0;

  // --- Life cycle ---------------------------------------------------------------------------
  // Applies to requests that arrive from now on; requests that arrive at the same time may be
  // checked against the old limits. EngineOptions contains the initial limits.
  virtual void SetLimits(const Limits& limits) = 0;
  // From now on limits its pools to these sizes, by evicting contexts and dropping registered
  // tables; calls in flight keep their memory. No pool becomes larger than at its creation. If the
  // pools are in GPU memory, only the tables in host memory are limited. A call for a context that
  // exceeds the remaining context pool ends with FailedPrecondition.
  virtual void LimitPools(const PoolSizes& sizes) = 0;
  // Rejects new requests (Unavailable) from now on, lets requests in flight finish until `deadline`
  // (of EngineOptions::clock), then aborts the remaining ones (Unavailable). BLOCKING; returns when
  // nothing is in flight.
  virtual void Drain(absl::Time deadline) = 0;
  virtual EngineStats Stats() const = 0;
  virtual PoolSizes Pools() const = 0;  // their current limits
  // BLOCKING. The registered contexts of all tenants.
  virtual absl::StatusOr<StoreTotals> Registered() = 0;
  virtual BackendInfo backend_info() const = 0;
  virtual bool memory_sets() const = 0;  // whether contexts can be reduced to memory sets
  virtual bool appends() const = 0;      // whether rows can be appended to contexts
  virtual std::vector<DeviceMemoryPart> DeviceMemory() const = 0;
  virtual std::string backend_description() const = 0;
  // Not Ok once the backend has failed: from then on every call fails with this status, until the
  // process is restarted.
  virtual absl::Status Health() const { return absl::OkStatus(); }
  // Like ContextStore::Health: not Ok while registrations and deletions fail because the files of
  // the store were removed or replaced. Contexts in memory are served.
  virtual absl::Status StoreHealth() const { return absl::OkStatus(); }
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_ENGINE_H_
