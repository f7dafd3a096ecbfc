// The engine as its callers see it: hands requests to the engine thread, blocking calls to the
// store.
#ifndef CHORALE_ENGINE_IMPL_ENGINE_IMPL_H_
#define CHORALE_ENGINE_IMPL_ENGINE_IMPL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/worker_thread.h"
#include "engine/context/context_loader.h"
#include "engine/context/context_registry.h"
#include "engine/context/model_registry.h"
#include "engine/engine.h"
#include "engine/loop/engine_loop.h"
#include "engine/loop/inbox.h"
#include "engine/session/session.h"

namespace chorale {

// Three threads: the engine thread runs the loop; the loader thread reads contexts from the store;
// the summary thread turns mixtures into point predictions.
//
// A request whose context is in memory is checked and prepared by the calling thread, otherwise by
// the loader thread, so the engine thread never waits for the disk or for a table.
//
// Thread contract: as Engine says; Start and the destructor belong to one thread.
class EngineImpl : public Engine {
 public:
  // `metrics` is not null.
  EngineImpl(const EngineOptions& options, std::unique_ptr<Backend> backend,
             std::unique_ptr<ContextStore> store, std::unique_ptr<ModelRegistry> models,
             MetricsSink* metrics);
  ~EngineImpl() override;

  // Hands the models to the backend and starts the engine thread. Errors are the backend's.
  absl::Status Start(const std::vector<Model>& models);

  std::vector<ModelInfo> Models() const override;

  absl::StatusOr<RegisterOutcome> Register(const std::string& tenant, const std::string& name,
                                           const std::string& model,
                                           const Dataset& dataset) override;
  absl::StatusOr<ContextInfo> GetContext(const std::string& tenant,
                                         const std::string& name) override;
  absl::StatusOr<ContextInfoPage> ListContexts(const std::string& tenant, int64_t page_size,
                                               const std::string& page_token) override;
  absl::Status DeleteContext(const std::string& tenant, const std::string& name) override;
  std::shared_ptr<Call> Warm(const std::string& tenant, const std::string& name,
                             absl::Time deadline, Callback<ContextInfo> done) override;

  std::shared_ptr<Call> Predict(PredictRequest request, Callback<PredictResult> done) override;
  std::shared_ptr<Call> Sample(SampleRequest request,
                               std::shared_ptr<SampleObserver> observer) override;
  std::shared_ptr<Call> LogDensity(LogDensityRequest request,
                                   Callback<LogDensityResult> done) override;

  void Drain(absl::Time deadline) override;
  EngineStats Stats() const override { return loop_.stats(); }
  std::string backend_description() const override { return description_; }
  absl::Status Health() const override { return loop_.health(); }

 private:
  CallStart NewCall(absl::Time deadline);
  // `receiver` is the session's callback or observer.
  template <typename SessionType, typename Request, typename Receiver>
  std::shared_ptr<Call> StartSession(Request request, Receiver receiver);
  std::shared_ptr<Call> Submit(std::unique_ptr<Session> session,
                               std::shared_ptr<CallControl> control, const std::string& tenant,
                               const std::string& context, Preparation preparation);
  void LookUp(uint64_t session, std::shared_ptr<CallControl> control, const std::string& tenant,
              const std::string& context, Preparation preparation);
  void RequestRead(std::shared_ptr<const RegisteredContext> context);
  void RunOnSummaryThread(uint64_t session, std::shared_ptr<const CallControl> control,
                          std::function<SessionEnvironment::Continuation()> job);
  // Keeps a dataset that was just stored in memory for its first request, if there is room.
  // REQUIRES: ChangesOf is held.
  void HoldRegistered(const ContextRecord& record, const ServedModel& model, const Dataset& dataset,
                      FeatureTransform transform);
  ContextInfo InfoOf(ContextRecord record);
  // Held while a name changes in the store and in the registry. Otherwise the second half of a
  // deletion could hit the next registration of the name.
  Mutex& ChangesOf(const std::string& tenant, const std::string& name);

  const EngineOptions options_;
  MetricsSink* const metrics_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<ContextStore> store_;
  const std::unique_ptr<ModelRegistry> models_;
  const std::string description_;
  const std::shared_ptr<Inbox> inbox_;
  ContextRegistry registry_;
  std::array<Mutex, 16> changes_;  // a name's is chosen by its hash
  ContextLoader loader_;
  SessionEnvironment environment_;
  EngineLoop loop_;
  std::atomic<uint64_t> next_call_{1};
  std::atomic<bool> draining_{false};
  WorkerThread loader_thread_;
  WorkerThread summary_thread_;
  std::thread engine_thread_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_IMPL_ENGINE_IMPL_H_
