// An engine in virtual time, in one thread: what its other threads do are events.
#ifndef CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_ENGINE_H_
#define CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/api/engine.h"
#include "engine/composition/engine_impl.h"
#include "engine/model/model.h"
#include "tests/engine/fake_backend.h"
#include "tests/engine/fake_store.h"
#include "tests/engine/simulation/simulated_thread.h"
#include "tests/engine/simulation/virtual_clock.h"

namespace chorale::testing {

// How long the parts of a tick take.
struct SimulatedDevice {
  absl::Duration tick_overhead = absl::Microseconds(50);
  // A step of a piece of work, or, of decodes in step, of the first of them.
  absl::Duration step = absl::Microseconds(400);
  // Of each further decode in step.
  absl::Duration further_decode = absl::Microseconds(20);
};

// How long a job of each thread takes.
struct SimulatedThreads {
  Delay loader;
  Delay parts;
  Delay summary;
  Delay anew;
  Delay file_reader = {};
  Delay file_writer = {};
};

// An engine with a fake backend and a fake store, which serves one model.
class SimulatedEngine {
 public:
  // `options.clock` must be `clock`. All pointers must outlive the engine.
  SimulatedEngine(VirtualClock* clock, const EngineOptions& options,
                  const FakeBackendOptions& backend, const SimulatedDevice& device,
                  const SimulatedThreads& threads, FakeBackendLog* device_log,
                  FakeStoreLog* store_log, MetricsSink* metrics);
  ~SimulatedEngine();

  // Runs the loop, and with it the events of the clock, until Stop.
  void Run();
  void Stop() { engine_->Stop(); }
  EngineImpl& impl() { return *engine_; }

  // A table with one feature, for contexts and for requests.
  static Table Rows(int64_t rows);
  // Registers a table under a name that may be registered already. Returns the digest of the
  // context.
  absl::StatusOr<std::string> Register(const std::string& tenant, const std::string& name,
                                       const ContextShape& shape,
                                       absl::Duration ttl = absl::InfiniteDuration());
  // Appends rows to a context. Returns the digest of the context.
  absl::StatusOr<std::string> Append(const std::string& tenant, const std::string& name,
                                     int64_t rows);
  // Whether the loader runs a job now, so that changes of contexts do not wait for it.
  bool loader_runs() const { return loader_->runs_job(); }
  const std::string& model_digest() const { return model_.digest; }

  // `check` is called at the start of each tick, when all commands have been handled.
  void OnTick(std::function<void()> check) { on_tick_ = std::move(check); }
  // The longest Advance so far.
  absl::Duration longest_tick() const { return longest_tick_; }

 private:
  void PassTick(absl::Span<const Slice> slices);

  VirtualClock* const clock_;
  const FakeBackendOptions backend_options_;
  const SimulatedDevice device_;
  FakeBackendLog* const device_log_;
  Model model_;
  SimulatedThread* loader_ = nullptr;  // of engine_
  std::unique_ptr<EngineImpl> engine_;
  absl::Duration longest_tick_;
  std::function<void()> on_tick_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_SIMULATION_SIMULATED_ENGINE_H_
