// The engine: registered contexts, their residency, and the sessions that draw from them.
//
// One thread (the engine thread) schedules and launches all work on the backend; one loader thread
// reads datasets from the store. Every public method may be called from any thread. Methods marked
// BLOCKING wait for the disk; the others return immediately.
#ifndef CHORALE_ENGINE_ENGINE_H_
#define CHORALE_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/backend/backend.h"
#include "engine/call_context.h"
#include "engine/context_counts.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"
#include "engine/metrics_sink.h"
#include "engine/model/model.h"
#include "engine/request.h"
#include "engine/store/context_store.h"

namespace chorale {

struct EngineOptions {
  Limits limits;
  int64_t max_queued = 256;  // requests waiting for admission
  absl::Duration max_queue_wait = absl::Seconds(30);
  absl::Duration retry_delay = absl::Seconds(1);  // suggested with RESOURCE_EXHAUSTED
  int64_t max_unacknowledged_values = 65'536;     // per Sample stream; see Call::Acknowledge
  // A Sample that waits for Call::Acknowledge for this time ends with ResourceExhausted.
  absl::Duration max_unread = absl::Seconds(60);
  int64_t max_running = 256;  // requests admitted at a time; bounds their host memory
  // Host memory for the data of newly registered contexts, which is kept for their first request.
  // If the memory is full, the oldest data is dropped, and read from the store when it is needed.
  int64_t max_registered_bytes = int64_t{256} << 20;
  // The target duration of a tick, and the maximum number of slices per tick; 0: the backend's
  // default.
  absl::Duration target_tick = absl::ZeroDuration();
  int64_t max_slices_per_tick = 0;
  // The folder for files of encoded contexts, and the limit of their total size; 0: no files.
  std::string context_files_folder;
  int64_t max_context_file_bytes = 0;
};

// Receives the results of one Sample, on the engine thread. It must not block, and must not call
// the engine except through Call. OnDone is called exactly once, and last.
class SampleObserver {
 public:
  virtual ~SampleObserver() = default;
  virtual void OnBlock(SampleBlock block) = 0;
  virtual void OnDone(const absl::Status& status, const SampleSummary& summary) = 0;
};

// A request in flight. Thread-safe; may outlive the engine and be dropped at any time.
class Call {
 public:
  virtual ~Call() = default;
  // Stops the request within one tick; the observer or callback then receives CANCELLED. No-op
  // after the end of the request.
  virtual void Cancel() = 0;
  // Reports that `values` values of the delivered blocks were passed on. The engine does not
  // advance a Sample with more than EngineOptions::max_unacknowledged_values outstanding values: a
  // slow reader slows only itself.
  virtual void Acknowledge(int64_t values) = 0;
};

struct RegisterOutcome {
  ContextInfo context;
  PutOutcome outcome = PutOutcome::kCreated;
  std::vector<ColumnNote> notes;  // of the dataset
};

// The size of the context while it is resident; 0: its model is not served.
struct ContextSize {
  std::string tenant;
  std::string name;
  int64_t resident_bytes = 0;
};

struct ContextInfoPage {
  std::vector<ContextInfo> contexts;
  std::string next_page_token;
};

// The state of the engine, at most a tick old.
struct EngineStats {
  // Requests that are admitted, and requests that wait for admission.
  int64_t running = 0;
  int64_t queued = 0;
  // Clients (ClientShare) whose requests wait for admission, and the largest share of a single
  // client, 0 to 1: its share of the buffer pool or of EngineOptions::max_running, whichever is
  // larger.
  int64_t waiting_clients = 0;
  double largest_client_share = 0;
  // The pending work of all requests, including contexts to be encoded: its duration at the rate of
  // the last seconds, the values to draw, the values whose density is to be computed, and the rows
  // to predict. At most 0.1 s older than the rest.
  absl::Duration backlog_time;
  int64_t backlog_values = 0;
  // The time since the engine thread began its last tick; zero while the engine is idle.
  absl::Duration tick_age;
  int64_t summary_queue = 0;  // tiles of predictions that wait for the summary thread

  ContextCounts contexts;
  int64_t resident_contexts = 0;
  // Memory in use, of the pools of PoolSizes.
  int64_t resident_bytes = 0;
  int64_t buffer_bytes = 0;
  int64_t encode_bytes = 0;
  int64_t registration_bytes = 0;  // see EngineOptions::max_registered_bytes
  // An upper estimate of the host memory that reading and encoding contexts needs in addition to
  // the pools.
  int64_t loading_bytes = 0;
};

// A configured model that the server skips.
struct LeftOutModel {
  std::string name;
  std::string reason;  // a sentence with the remedy
};

// Bytes; 0 for a pool that the backend does not have.
struct PoolSizes {
  int64_t context = 0;
  int64_t buffer = 0;
  int64_t encode = 0;
  int64_t host_context = 0;
  int64_t registration = 0;
};

class Engine {
 public:
  template <typename Result>
  using Callback = std::function<void(absl::StatusOr<Result>)>;  // on the engine thread, once

  // Requires at least one model; the first one is the default. `metrics` must outlive the engine,
  // and may be null.
  //
  // A model that requires something that this machine lacks (Unavailable of Backend::AddModel) is
  // skipped and added to `left_out`; the first of the other models is then the default. It is an
  // error if no model remains, or if `left_out` is null. Any other error of a model is an error of
  // the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const EngineOptions& options, std::unique_ptr<Backend> backend,
      std::unique_ptr<ContextStore> store, const std::vector<Model>& models, MetricsSink* metrics,
      std::vector<LeftOutModel>* left_out = nullptr);
  // Cancels the running requests, then joins the threads and closes the store.
  virtual ~Engine() = default;

  // --- Models -------------------------------------------------------------------------------
  struct ModelInfo {
    std::string name;
    ModelConfig config;
    std::string digest;
    int64_t parameters = 0;
    bool is_default = false;
    int64_t resident_bytes_per_row = 0;  // approximate size in the context pool
    std::string form = {};               // BackendModel::form
  };
  virtual std::vector<ModelInfo> Models() const = 0;

  // BLOCKING, also for the engine thread: running sessions pause while it prepares the weights.
  // Requests find the model once this returns Ok. AlreadyExists if a model of the same name is
  // served; FailedPrecondition if this machine lacks something that the model requires (Unavailable
  // of Backend::AddModel), so that the caller may skip the model and retry later; Unavailable while
  // draining or once the device has failed; otherwise the backend's error, such as
  // ResourceExhausted.
  virtual absl::Status AddModel(const Model& model) = 0;
  // From now on requests do not find the model: registrations get NotFound, requests for its
  // contexts FailedPrecondition. Sessions that run on it finish. Its contexts lose their keys and
  // values, but stay registered; its weights are freed when the last session ends. If it was the
  // default, the first of the remaining models is the default. NotFound; FailedPrecondition for the
  // only model.
  virtual absl::Status RemoveModel(const std::string& name) = 0;
  // NotFound.
  virtual absl::Status SetDefaultModel(const std::string& name) = 0;

  // --- Contexts -----------------------------------------------------------------------------
  // BLOCKING. Returns when the dataset is durable. `model` empty: the default model.
  // InvalidArgument, AlreadyExists, NotFound (model), ResourceExhausted (disk, or the quota).
  virtual absl::StatusOr<RegisterOutcome> Register(const std::string& tenant,
                                                   const std::string& name,
                                                   const std::string& model, const Dataset& dataset,
                                                   const StoreQuota& quota) = 0;
  absl::StatusOr<RegisterOutcome> Register(const std::string& tenant, const std::string& name,
                                           const std::string& model, const Dataset& dataset) {
    return Register(tenant, name, model, dataset, StoreQuota());
  }
  virtual absl::StatusOr<ContextInfo> GetContext(const std::string& tenant,
                                                 const std::string& name) = 0;  // BLOCKING
  // BLOCKING. As ContextStore::List.
  virtual absl::StatusOr<ContextInfoPage> ListContexts(const std::string& tenant, PageLimits limits,
                                                       const std::string& page_token) = 0;
  // BLOCKING. Sessions that already use the context finish; its keys and values are freed when the
  // last of them ends.
  virtual absl::Status DeleteContext(const std::string& tenant, const std::string& name) = 0;
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
  // (monotonic), then aborts the remaining ones (Unavailable). BLOCKING; returns when nothing is in
  // flight.
  virtual void Drain(absl::Time deadline) = 0;
  virtual EngineStats Stats() const = 0;
  virtual PoolSizes Pools() const = 0;  // their current limits
  // BLOCKING. The registered contexts of all tenants.
  virtual absl::StatusOr<StoreTotals> Registered() = 0;
  virtual BackendInfo backend_info() const = 0;
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

#endif  // CHORALE_ENGINE_ENGINE_H_
