// The engine: registered contexts, their residency, and the sessions that draw from them.
//
// One thread (the engine thread) schedules and launches all work on the backend; one loader thread
// reads datasets from the store. Every public method may be called from any thread. Those marked
// BLOCKING wait for the disk; the others return at once.
#ifndef CHORALE_ENGINE_ENGINE_H_
#define CHORALE_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/backend/backend.h"
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
  int64_t max_running = 256;  // requests admitted at a time; bounds their host memory
  // Host memory for the data of newly registered contexts, kept for their first request. The oldest
  // are dropped when there is no room; what was dropped is read from the store.
  int64_t max_registered_bytes = int64_t{256} << 20;
  // What a tick should take, and pieces of work advanced together; 0: as suits the backend.
  absl::Duration target_tick = absl::ZeroDuration();
  int64_t max_slices_per_tick = 0;
};

// Receives one Sample's results, on the engine thread; must not block and must not call back into
// the engine except through Call. OnDone comes exactly once and last.
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
  // Stops within one tick; the observer or callback then hears CANCELLED. No-op once done.
  virtual void Cancel() = 0;
  // Says that `values` values of the blocks delivered were passed on. A Sample with more than
  // EngineOptions::max_unacknowledged_values outstanding is not advanced: a slow reader slows
  // only itself.
  virtual void Acknowledge(int64_t values) = 0;
};

struct RegisterOutcome {
  ContextInfo context;
  PutOutcome outcome = PutOutcome::kCreated;
};

struct ContextInfoPage {
  std::vector<ContextInfo> contexts;
  std::string next_page_token;
};

struct EngineStats {
  int64_t resident_contexts = 0;
  int64_t resident_bytes = 0;
  int64_t buffer_bytes = 0;
  int64_t running = 0;
  int64_t queued = 0;
};

class Engine {
 public:
  template <typename Result>
  using Callback = std::function<void(absl::StatusOr<Result>)>;  // on the engine thread, once

  // At least one model; the first one is the default. `metrics` outlives the engine, and may be
  // null.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                        std::unique_ptr<Backend> backend,
                                                        std::unique_ptr<ContextStore> store,
                                                        const std::vector<Model>& models,
                                                        MetricsSink* metrics);
  // Cancels what still runs, then joins the threads and closes the store.
  virtual ~Engine() = default;

  // --- Models -------------------------------------------------------------------------------
  struct ModelInfo {
    std::string name;
    ModelConfig config;
    std::string digest;
    int64_t parameters = 0;
    bool is_default = false;
    int64_t resident_bytes_per_row = 0;  // what a context takes in the context pool, about
  };
  virtual std::vector<ModelInfo> Models() const = 0;

  // --- Contexts -----------------------------------------------------------------------------
  // BLOCKING. Returns when the dataset is durable. `model` empty: the default model.
  // InvalidArgument, AlreadyExists, NotFound (model), ResourceExhausted (disk).
  virtual absl::StatusOr<RegisterOutcome> Register(const std::string& tenant,
                                                   const std::string& name,
                                                   const std::string& model,
                                                   const Dataset& dataset) = 0;
  virtual absl::StatusOr<ContextInfo> GetContext(const std::string& tenant,
                                                 const std::string& name) = 0;  // BLOCKING
  virtual absl::StatusOr<ContextInfoPage> ListContexts(
      const std::string& tenant, int64_t page_size,
      const std::string& page_token) = 0;  // BLOCKING
  // BLOCKING. Sessions that already run on it finish; its K/V go when the last one ends.
  virtual absl::Status DeleteContext(const std::string& tenant, const std::string& name) = 0;
  // Makes a context resident; calls back when it is, or with why it cannot be.
  virtual std::shared_ptr<Call> Warm(const std::string& tenant, const std::string& name,
                                     absl::Time deadline, Callback<ContextInfo> done) = 0;

  // --- Inference ----------------------------------------------------------------------------
  // Every error, also a malformed request, arrives through the callback or observer (details as in
  // base/error_details.h):
  //   InvalidArgument    a field is wrong; the message names it and the limit; carries ErrorField
  //   NotFound           no such context
  //   FailedPrecondition the context's model is not served
  //   DataLoss           the context's dataset is damaged
  //   ResourceExhausted  queue full or waited too long (try again); carries RetryDelay
  //   Unavailable        draining, or the device failed; see Health
  //   DeadlineExceeded, Cancelled
  virtual std::shared_ptr<Call> Predict(PredictRequest request, Callback<PredictResult> done) = 0;
  virtual std::shared_ptr<Call> Sample(SampleRequest request,
                                       std::shared_ptr<SampleObserver> observer) = 0;
  virtual std::shared_ptr<Call> LogDensity(LogDensityRequest request,
                                           Callback<LogDensityResult> done) = 0;

  // --- Life cycle ---------------------------------------------------------------------------
  // Refuses new requests (Unavailable) from now on, lets those in flight finish until `deadline`,
  // then ends the rest (Unavailable). BLOCKING; returns when nothing is in flight.
  virtual void Drain(absl::Time deadline) = 0;
  virtual EngineStats Stats() const = 0;
  virtual std::string backend_description() const = 0;
  // Not Ok once the backend has failed: from then on every call fails with this status, until the
  // process is started anew.
  virtual absl::Status Health() const { return absl::OkStatus(); }
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_ENGINE_H_
