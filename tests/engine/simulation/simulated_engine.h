// The engine's loop in virtual time, in one thread: what its other threads do are events.
#ifndef CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_ENGINE_H_
#define CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/error_details.h"
#include "engine/api/engine_options.h"
#include "engine/context/preparation.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"
#include "engine/scheduling/engine_loop.h"
#include "engine/scheduling/inbox.h"
#include "engine/session/request_preparation.h"
#include "tests/engine/fake_backend.h"
#include "tests/engine/simulation/virtual_clock.h"
#include "tests/engine/small_model.h"

namespace chorale::testing {

// How long the parts of a tick take.
struct SimulatedDevice {
  absl::Duration tick_overhead = absl::Microseconds(50);
  // A step of a piece of work, or, of decodes in step, of the first of them.
  absl::Duration step = absl::Microseconds(400);
  // Of each further decode in step.
  absl::Duration further_decode = absl::Microseconds(20);
};

// How long other threads take; a delay is drawn for each event.
using Delay = std::function<absl::Duration()>;
struct SimulatedThreads {
  Delay look_up;  // of a context in the store
  Delay read;     // of the data of a context
  Delay summary;  // of a tile of a prediction
  // Whether the data of a context can be read.
  std::function<absl::Status()> read_outcome;
};

// Does what EngineImpl does with its threads and a store.
class SimulatedEngine {
 public:
  using Context = std::shared_ptr<RegisteredContext>;

  // `options.clock` must be `clock`. All pointers must outlive the engine.
  SimulatedEngine(VirtualClock* clock, const EngineOptions& options,
                  const FakeBackendOptions& backend, const SimulatedDevice& device,
                  SimulatedThreads threads, FakeBackendLog* log, MetricsSink* metrics);
  ~SimulatedEngine();

  // Runs the loop, and with it the events of the clock, until Stop.
  void Run() { loop_.Run(); }
  void Stop() { inbox_->Push(command::Stop()); }
  // `done` must outlive the drain.
  void Drain(absl::Time deadline, Notification* done);
  void Fail() { log_->fail = true; }
  void LimitPools(int64_t context_bytes, int64_t buffer_bytes) {
    inbox_->Push(command::LimitPools{context_bytes, buffer_bytes});
  }

  // Registers a context with one feature. Its data comes with it, or is read when it is needed.
  // REQUIRES: it fits into the context pool.
  Context NewContext(const std::string& tenant, int64_t rows, bool with_data) const;
  // Rows for such a context.
  static Table QueryRows(int64_t rows);
  // Another registration replaces the context, or it is deleted: requests find it no longer.
  void Replace(const Context& context);

  // Submits a request to a context, which is in memory or is looked up first. SessionType is
  // constructed with the request and the receiver.
  template <typename SessionType, typename Request, typename Receiver>
  std::shared_ptr<CallControl> Submit(CallContext call, Context context, bool in_memory,
                                      const Request& request, Receiver receiver) {
    CallStart start{next_call_++, std::make_shared<CallControl>(), clock_->Now(), std::move(call)};
    std::shared_ptr<CallControl> control = start.control;
    const auto shared = std::make_shared<const Request>(request);
    Enqueue(
        std::make_unique<SessionType>(std::move(start), &environment_, shared, std::move(receiver)),
        control, std::move(context), in_memory, MakePreparation(shared, &limits_, backend_.get()));
    return control;
  }
  void Cancel(CallControl& control);
  void Acknowledge(CallControl& control, int64_t values);

  EngineStats stats() const { return loop_.stats(); }
  Backend& backend() { return *backend_; }
  // `check` is called at the end of each tick, before its results are taken.
  void OnTick(std::function<void()> check) { on_tick_ = std::move(check); }
  // The longest Advance so far.
  absl::Duration longest_tick() const { return longest_tick_; }

 private:
  void Enqueue(std::unique_ptr<Session> session, std::shared_ptr<CallControl> control,
               Context context, bool in_memory, std::shared_ptr<const Preparation> preparation);
  void PassTick(absl::Span<const Slice> slices);
  void Read(const ContextCache::ContextPointer& context);

  VirtualClock* const clock_;
  const EngineOptions options_;
  const FakeBackendOptions backend_options_;
  const SimulatedDevice device_;
  const SimulatedThreads threads_;
  FakeBackendLog* const log_;
  const std::unique_ptr<Backend> backend_;
  const std::shared_ptr<ServedModel> model_ = NewServedModel();
  const Limits limits_;
  const std::shared_ptr<Inbox> inbox_;
  SessionEnvironment environment_;
  EngineLoop loop_;
  uint64_t next_call_ = 1;
  bool draining_ = false;
  absl::Duration longest_tick_;
  std::function<void()> on_tick_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_ENGINE_H_
