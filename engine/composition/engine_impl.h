// The implementation of Engine, which passes requests to the engine thread, and blocking calls to
// the store.
#ifndef CHORALE_ENGINE_COMPOSITION_ENGINE_IMPL_H_
#define CHORALE_ENGINE_COMPOSITION_ENGINE_IMPL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/notification.h"
#include "base/periodic_task.h"
#include "base/work_queue.h"
#include "base/worker_threads.h"
#include "engine/api/engine.h"
#include "engine/composition/encodings_anew.h"
#include "engine/context/appended_content.h"
#include "engine/context/context_loader.h"
#include "engine/context/context_registry.h"
#include "engine/context/encoded_contexts.h"
#include "engine/context/model_registry.h"
#include "engine/context/registration.h"
#include "engine/context/use_log.h"
#include "engine/data/live_limits.h"
#include "engine/scheduling/engine_loop.h"
#include "engine/scheduling/inbox.h"
#include "engine/session/session.h"

namespace chorale {

// The engine has these threads: the engine thread runs the loop, the loader thread reads contexts
// from the store, the parts thread selects the rows of local contexts, and the summary threads
// compute marginal predictions from mixtures, and statistics of paths. If encoded contexts are kept
// in files, two more threads read and write these files. An upkeep thread deletes expired contexts
// and stores the times of uses. The anew thread prepares the encodings of whole contexts to which
// rows were appended (EncodingsAnew).
//
// If the context of a request is in memory, the calling thread validates and prepares the request.
// Otherwise the loader thread does. So the engine thread waits neither for the disk nor for the
// conversion of a table.
//
// Thread contract: see Engine. One thread calls Start and the destructor.
class EngineImpl : public Engine {
 public:
  // Where the jobs of the threads run that have the same names.
  struct Queues {
    std::unique_ptr<WorkQueue> loader = std::make_unique<WorkerThreads>();
    std::unique_ptr<WorkQueue> parts = std::make_unique<WorkerThreads>();
    std::unique_ptr<WorkQueue> summary = std::make_unique<WorkerThreads>();
    std::unique_ptr<WorkQueue> anew = std::make_unique<WorkerThreads>();
  };

  // `metrics` must not be null; `encoded` may be null.
  EngineImpl(const EngineOptions& options, std::unique_ptr<Backend> backend,
             std::unique_ptr<ContextStore> store, std::unique_ptr<ModelRegistry> models,
             std::unique_ptr<EncodedContexts> encoded, MetricsSink* metrics, Queues queues);
  ~EngineImpl() override;

  // Starts the engine thread and the upkeep thread. Returns the errors of Engine::Create.
  absl::Status Start(const std::vector<Model>& models);

  // What Start and Drain do on threads, for a caller without threads. Run is the engine thread: it
  // adds the models to the backend, passes the outcome to `started`, and, if that is OK, runs the
  // loop until Stop.
  void Run(const std::vector<Model>& models,
           const std::function<void(const absl::Status&)>& started);
  void Stop() { inbox_->Push(command::Stop()); }
  // What the upkeep thread does every minute.
  void Upkeep();
  // Drain without waiting: `done` is notified when nothing is in flight.
  void BeginDrain(absl::Time deadline, Notification* done);

  std::vector<ModelInfo> Models() const override;
  std::vector<SkippedModel> SkippedModels() const override { return models_->skipped(); }
  void SetSkippedModels(std::vector<SkippedModel> models) override {
    models_->SetSkipped(std::move(models));
  }
  absl::StatusOr<ModelOutcome> AddModel(const Model& model) override;
  absl::Status RemoveModel(const std::string& name) override;
  absl::Status SetDefaultModel(const std::string& name) override;

  using Engine::Register;
  absl::StatusOr<RegisterOutcome> Register(const std::string& tenant,
                                           const RegisterRequest& request, const Dataset& dataset,
                                           const StoreQuota& quota) override;
  absl::StatusOr<AppendOutcome> Append(const std::string& tenant, const AppendRequest& request,
                                       const Table& rows, const StoreQuota& quota) override;
  absl::StatusOr<ContextInfo> GetContext(const std::string& tenant,
                                         const std::string& name) override;
  using Engine::ListContexts;
  absl::StatusOr<ContextInfoPage> ListContexts(const std::string& tenant, const ContextQuery& query,
                                               PageLimits limits,
                                               const std::string& page_token) override;
  using Engine::DeleteContext;
  absl::Status DeleteContext(const std::string& tenant, const std::string& name,
                             const DeleteTerms& terms) override;
  std::shared_ptr<Call> Warm(CallContext call, WarmRequest request,
                             Callback<ContextInfo> done) override;
  absl::StatusOr<std::vector<ContextSize>> NewestContexts(int64_t limit) override;

  std::shared_ptr<Call> Predict(CallContext call, PredictRequest request,
                                Callback<PredictResult> done) override;
  std::shared_ptr<Call> Sample(CallContext call, SampleRequest request,
                               std::shared_ptr<SampleObserver> observer) override;
  std::shared_ptr<Call> Summarize(CallContext call, SummarizeRequest request,
                                  Callback<SummarizeResult> done) override;
  std::shared_ptr<Call> LogDensity(CallContext call, LogDensityRequest request,
                                   Callback<LogDensityResult> done) override;

  void SetLimits(const Limits& limits) override { limits_.Set(limits); }
  void Drain(absl::Time deadline) override;
  EngineStats Stats() const override;
  PoolSizes Pools() const override;
  void LimitPools(const PoolSizes& sizes) override;
  absl::StatusOr<StoreTotals> Registered() override { return store_->Totals(); }
  BackendInfo backend_info() const override { return backend_->info(); }
  bool memory_sets() const override { return backend_->memory_sets(); }
  bool appends() const override { return backend_->appends(); }
  std::vector<DeviceMemoryPart> DeviceMemory() const override { return backend_->DeviceMemory(); }
  std::string backend_description() const override { return description_; }
  absl::Status Health() const override { return loop_.health(); }
  absl::Status StoreHealth() const override { return store_->Health(); }

 private:
  // `receiver` is the callback or the observer of the session.
  template <typename SessionType, typename Request, typename Receiver>
  std::shared_ptr<Call> StartSession(CallContext call, Request request, Receiver receiver);
  std::shared_ptr<Call> Submit(std::unique_ptr<Session> session,
                               std::shared_ptr<CallControl> control, const std::string& context,
                               std::shared_ptr<const Preparation> preparation);
  // A session that waits for a look-up. `uses`: it counts as a use of the context.
  struct LookUpCaller {
    uint64_t session = 0;
    std::string client;
    bool uses = true;
  };
  void LookUp(const LookUpCaller& caller, std::shared_ptr<CallControl> control,
              const std::string& tenant, const std::string& context,
              std::shared_ptr<const Preparation> preparation);
  // Replaces the context of a prepared request by a local context of `local_rows` rows.
  void MakePart(const LookUpCaller& caller, std::shared_ptr<CallControl> control,
                PreparedRequest prepared, std::shared_ptr<const ContextData> table,
                int64_t local_rows);
  // A part of Run.
  absl::Status AddFirstModels(const std::vector<Model>& models);
  void RequestRead(const std::shared_ptr<const RegisteredContext>& context);
  EngineLoop::FileAccess FileAccess();
  void RunOnSummaryThread(uint64_t session, std::shared_ptr<const CallControl> control,
                          const std::string& turn,
                          std::function<SessionEnvironment::Continuation()> job);
  // Returns the outcome that a registration would have now, with an estimate of its encoding.
  absl::StatusOr<RegisterOutcome> Validate(const RegisterRequest& request,
                                           Registration registration, const ServedModel& model,
                                           const StoreQuota& quota);
  // Keeps a dataset that was just stored in memory for its first request, if there is space.
  // REQUIRES: the caller holds ChangesOf.
  void HoldRegistered(const ContextRecord& record, std::shared_ptr<const ServedModel> model,
                      const Dataset& dataset, FeatureTransform transform);
  // Returns a registration with its data, or null if it has none: the first request returns the
  // error.
  std::shared_ptr<RegisteredContext> MakeContext(const ContextRecord& record,
                                                 std::shared_ptr<const ServedModel> model,
                                                 const Dataset& dataset,
                                                 FeatureTransform transform) const;

  // Reads a context of which the store has this record. FailedPrecondition if its model is not
  // served. REQUIRES: the caller holds ChangesOf.
  absl::StatusOr<ReadContext> ReadStored(ContextRecord record);
  // Stores a registration instead of `earlier`. Sets `changed` if the store has it now, also if the
  // call failed. REQUIRES: the caller holds ChangesOf.
  absl::Status PutInstead(const ContextRecord& earlier, const Registration& registration,
                          const StoreQuota& quota, bool* changed);
  // Stores new content instead of that of a context, and lets new requests find it. Its first rows
  // are those of `predecessor`, which may be null. If this is in use (RegisteredContext::IsInUse),
  // encodes the new content without waiting for a request. REQUIRES: the caller holds ChangesOf.
  absl::Status ReplaceContent(const ReadContext& stored, NewContent content,
                              const StoreQuota& quota,
                              std::shared_ptr<const RegisteredContext> predecessor);

  // Requests to encode a context anew if it has too many appended rows, or appends. `earlier` is
  // the registration before the last append, or null.
  void EncodeAnewIfNeeded(const ContextRecord& record, size_t appends,
                          const RegisteredContext* earlier);
  // A context that is encoded anew: what the store had at the beginning, and what is to replace it.
  struct Anew {
    ReadContext before;         // without the bytes
    Registration registration;  // of all rows
    std::shared_ptr<RegisteredContext> context;
    bool submitted = false;  // to the engine thread, which makes it resident
  };
  // The run passes through these steps, on the anew thread except where it says otherwise:
  //   EncodeAnew        reads and prepares the rows
  //   MakeAnewResident  if calls use the context: waits until the new content is resident, on the
  //                     engine thread, as a call that warms it
  //   FinishAnew        replaces the content in the store and in the registry
  //   EndAnew           ends the run; after GiveUpAnew, if nothing was replaced
  void EncodeAnew(const EncodingsAnew::Run& run);
  // Returns null if no rows were appended to the context.
  absl::StatusOr<std::shared_ptr<Anew>> PrepareAnewRun(const EncodingsAnew::Run& run);
  void MakeAnewResident(const EncodingsAnew::Run& run, std::shared_ptr<Anew> anew);
  EncodingsAnew::End FinishAnew(Anew* anew);
  // Returns false if the context was changed so that the new content may not replace it. Rows that
  // were appended meanwhile, and new details, are kept.
  absl::StatusOr<bool> ReplaceByAnew(Anew* anew);
  EncodingsAnew::End GiveUpAnew(const Anew& anew, const absl::Status& why);
  void EndAnew(const EncodingsAnew::Run& run, const EncodingsAnew::End& end);

  ContextInfo InfoOf(ContextRecord record);
  // Replaces details of a registered context by those that the request sets. REQUIRES: the caller
  // holds ChangesOf.
  absl::StatusOr<ContextRecord> UpdateDetails(ContextRecord record, const RegisterRequest& request,
                                              absl::Time now);
  // Stores a registration. With `replace`, replaces the earlier registration of the name. REQUIRES:
  // the caller holds ChangesOf.
  absl::StatusOr<PutOutcome> Store(const RegisterRequest& request, const Registration& registration,
                                   const StoreQuota& quota);
  // Lets new requests find the registration that has replaced the one in memory. Returns true if
  // that one was never to be evicted. REQUIRES: the caller holds ChangesOf.
  bool DropReplaced(const std::string& tenant, const std::string& name);
  // Makes a context resident, and never evicts it.
  void PinAgain(const std::string& tenant, const std::string& name);
  // REQUIRES: the caller holds ChangesOf.
  absl::Status DeleteHeld(const std::string& tenant, const std::string& name);
  void DeleteExpired(absl::Time now);
  void StoreUses();
  // Returns 0 for a context that cannot become resident: its model is not served, or the backend
  // has no memory sets.
  int64_t ResidentBytes(const std::string& model, const ContextShape& shape);
  // Returns the mutex to hold while a name changes in the store and in the registry. Without it,
  // the second half of a deletion could affect the next registration of the name.
  Mutex& ChangesOf(const std::string& tenant, const std::string& name);

  const EngineOptions options_;
  LiveLimits limits_;
  MetricsSink* const metrics_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<ContextStore> store_;
  const std::unique_ptr<ModelRegistry> models_;
  const std::string description_;
  const bool host_reaches_pools_;
  const std::shared_ptr<Inbox> inbox_;
  ContextRegistry registry_;
  // See LimitPools.
  std::atomic<int64_t> registration_limit_;
  std::atomic<int64_t> context_limit_{std::numeric_limits<int64_t>::max()};
  std::atomic<int64_t> buffer_limit_{std::numeric_limits<int64_t>::max()};
  std::array<Mutex, 16> changes_;         // selected by the hash of the name
  Mutex large_append_;                    // see Append
  std::atomic<int64_t> append_bytes_{0};  // an upper estimate of the host memory of appends
  ContextLoader loader_;
  std::unique_ptr<EncodedContexts> encoded_;  // null: no files
  SessionEnvironment environment_;
  EngineLoop loop_;
  std::atomic<uint64_t> next_call_{1};
  std::atomic<bool> draining_{false};
  EncodingsAnew encodings_anew_;
  Queues queues_;
  std::thread engine_thread_;
  UseLog uses_;
  absl::Time uses_stored_ = options_.clock->Now();  // of the upkeep thread
  std::unique_ptr<PeriodicTask> upkeep_;            // ends first
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_COMPOSITION_ENGINE_IMPL_H_
