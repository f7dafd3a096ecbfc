// The work of one tick: the steps that the backend advances, and their costs. No threads, no clock.
#ifndef CHORALE_ENGINE_SCHEDULING_TICK_PLAN_H_
#define CHORALE_ENGINE_SCHEDULING_TICK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/api/call_context.h"
#include "engine/api/engine_options.h"
#include "engine/api/metrics_sink.h"
#include "engine/backend/backend.h"
#include "engine/scheduling/scheduler.h"
#include "engine/scheduling/step_time_model.h"
#include "engine/scheduling/work_rates.h"

namespace chorale {

// In each tick, call Clear, call Add for each task, call Pick, let the backend advance the slices,
// and call Charge.
//
// Thread contract: not thread-safe; the engine thread owns every instance.
class TickPlan {
 public:
  // A piece of work that can be advanced.
  struct Task {
    Slice slice;             // the work and the maximum number of its steps
    uint64_t flow = 0;       // see Scheduler; add the tasks of a flow consecutively
    absl::string_view lane;  // the client for the scheduler; valid until the next Clear
    const ClientShare* share =
        nullptr;            // the client whose time the work takes; valid until the next Clear
    bool is_short = false;  // belongs to a request of less than a tick
  };

  // `backend` must outlive the plan.
  TickPlan(const EngineOptions& options, Backend* backend);

  void Clear();
  void Add(const Task& task);
  bool empty() const { return tasks_.empty(); }

  // Selects the steps of the tick. `shared`: several clients have work, so the tick is short. The
  // result is valid until the next Clear.
  absl::Span<const Slice> Pick(bool shared);

  // Receives the index of a task, in the order of Add, its FLOPs, and its time.
  using Report = absl::FunctionRef<void(size_t task, double flops, absl::Duration time)>;
  // Charges each flow for its work after the backend has advanced the picked slices in `elapsed`.
  // Updates the estimates, and reports the work of each picked task.
  void Charge(absl::Duration elapsed, MetricsSink* metrics, Report report);

  // Removes a flow that has ended.
  void Remove(uint64_t flow) { scheduler_.Remove(flow); }

  // --- Estimates, from the work of the last ticks ---------------------------------------------
  // Returns the FLOPs of a tick that no other client shares; 0 before the first observation.
  double TickFlops() const { return rate_.Budget(options_.target_tick); }
  // Returns the time of work under the present load; zero before the first observation.
  absl::Duration TimeOf(const FlopsOfTick& flops) const { return work_rates_.TimeOf(flops); }

 private:
  // Estimates the time that decodes took of `elapsed`. Updates rate_, step_times_ and work_rates_.
  absl::Duration ObserveTimes(const FlopsOfTick& flops, int64_t decodes, int64_t longest_decode,
                              absl::Duration elapsed);
  void HalveWeightsOfTwoLanes();
  Scheduler::Limits LimitsOfTick(bool shared) const;
  void EqualizeDecodeSteps();
  bool IsDecode(const Scheduler::Pick& pick) const {
    return tasks_[pick.candidate].slice.work->kind() == WorkKind::kDecode;
  }

  const EngineOptions options_;
  Backend* const backend_;
  const bool decodes_in_step_;  // TickPolicy::decodes_in_step
  Scheduler scheduler_;
  FlopRate rate_;             // of all slices, or of all except decodes in step
  StepTimeModel step_times_;  // of decodes in step
  WorkRates work_rates_;      // for the backlog

  // Data of the current tick; members only to reuse their capacity.
  std::vector<Task> tasks_;
  std::vector<Scheduler::Candidate> candidates_;  // the tasks, in their order
  std::vector<Scheduler::Pick> picks_;
  std::vector<double> flops_;  // of the picks
  std::vector<Slice> slices_;  // of the picks
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_TICK_PLAN_H_
