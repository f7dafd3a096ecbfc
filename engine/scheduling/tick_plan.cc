#include "engine/scheduling/tick_plan.h"

#include <algorithm>
#include <array>

#include "absl/container/flat_hash_map.h"

namespace chorale {
namespace {

// The factor by which ticks are shorter while several clients have work, or while a short request
// runs next to a long request, and for some time afterwards. In short ticks, the next request waits
// less for the end of the current tick.
constexpr int kSharedTicks = 4;

}  // namespace

TickPlan::TickPlan(const EngineOptions& options, Backend* backend)
    : options_(options),
      backend_(backend),
      decodes_in_step_(backend->tick_policy().decodes_in_step) {}

void TickPlan::Clear() {
  tasks_.clear();
  candidates_.clear();
}

void TickPlan::Add(const Task& task) {
  tasks_.push_back(task);
  candidates_.push_back({task.flow, task.slice.work->next_step_flops(), task.slice.max_steps,
                         task.lane, task.share->weight});
}

absl::Span<const Slice> TickPlan::Pick(bool shared) {
  HalveWeightsOfTwoLanes();
  picks_ = scheduler_.PickSlices(candidates_, LimitsOfTick(shared));
  if (decodes_in_step_) EqualizeDecodeSteps();
  flops_.clear();
  slices_.clear();
  for (const Scheduler::Pick& pick : picks_) {
    Work* const work = tasks_[pick.candidate].slice.work;
    flops_.push_back(work->next_flops(pick.steps));
    slices_.push_back({work, pick.steps});
  }
  return slices_;
}

// Halves the weights of a client that has both short and long requests. The scheduler treats the
// short requests of a client as a separate client, so that they wait only for their fair part of
// the work of the long requests.
void TickPlan::HalveWeightsOfTwoLanes() {
  // For each client: whether it has long requests, and whether it has short requests.
  absl::flat_hash_map<absl::string_view, std::array<bool, 2>> lanes;
  for (const Task& task : tasks_) lanes[task.share->client][task.is_short ? 1 : 0] = true;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const auto& [has_long, has_short] = lanes[tasks_[i].share->client];
    if (has_long && has_short) candidates_[i].weight /= 2;
  }
}

Scheduler::Limits TickPlan::LimitsOfTick(bool shared) const {
  const absl::Duration tick = options_.target_tick / (shared ? kSharedTicks : 1);
  Scheduler::Limits limits = {
      .max_slices = options_.max_slices_per_tick,
      .budget = rate_.Budget(tick),
      .tick = tick,
      .shorten = !decodes_in_step_,
      .parallel = decodes_in_step_ ? options_.max_slices_per_tick : backend_->info().threads};
  // If slices run in parallel, a single long slice would leave threads idle at the end of the tick.
  if (!decodes_in_step_) {
    limits.longest = 2 * limits.budget / static_cast<double>(limits.max_slices);
  }
  return limits;
}

// Gives all decodes the number of steps that fits into the time that other slices leave of the
// tick.
void TickPlan::EqualizeDecodeSteps() {
  double other_flops = 0;
  int64_t decodes = 0;
  for (const Scheduler::Pick& pick : picks_) {
    if (IsDecode(pick)) {
      ++decodes;
    } else {
      other_flops += candidates_[pick.candidate].step_flops * static_cast<double>(pick.steps);
    }
  }
  if (decodes == 0) return;
  const int64_t steps =
      step_times_.StepsWithin(decodes, options_.target_tick - rate_.TimeOf(other_flops));
  for (Scheduler::Pick& pick : picks_) {
    if (IsDecode(pick)) pick.steps = std::min(steps, candidates_[pick.candidate].max_steps);
  }
}

void TickPlan::Charge(absl::Duration elapsed, MetricsSink* metrics, Report report) {
  FlopsOfTick flops;
  int64_t decodes = 0;
  int64_t decode_steps = 0;
  int64_t longest_decode = 0;
  for (size_t i = 0; i < picks_.size(); ++i) {
    if (!IsDecode(picks_[i])) {
      flops.other += flops_[i];
      continue;
    }
    flops.decode += flops_[i];
    ++decodes;
    decode_steps += picks_[i].steps;
    longest_decode = std::max(longest_decode, picks_[i].steps);
  }
  const absl::Duration decode_time = ObserveTimes(flops, decodes, longest_decode, elapsed);
  if (decode_steps > 0) {
    const double share = flops.decode / (flops.decode + flops.other);
    metrics->StepTimes(elapsed * share / static_cast<double>(decode_steps), decode_steps);
  }
  for (size_t i = 0; i < picks_.size(); ++i) {
    const absl::Duration time = IsDecode(picks_[i])
                                    ? decode_time * (flops_[i] / flops.decode)
                                    : (elapsed - decode_time) * (flops_[i] / flops.other);
    const size_t task = picks_[i].candidate;
    scheduler_.Charge(tasks_[task].flow, flops_[i], time);
    report(task, flops_[i], time);
  }
}

absl::Duration TickPlan::ObserveTimes(const FlopsOfTick& flops, int64_t decodes,
                                      int64_t longest_decode, absl::Duration elapsed) {
  const double all_flops = flops.decode + flops.other;
  absl::Duration decode_time = elapsed * (flops.decode / all_flops);
  if (!decodes_in_step_ || decodes == 0) {
    rate_.Observe(all_flops, elapsed);
  } else {
    decode_time =
        flops.other == 0
            ? elapsed
            : SplitElapsed(elapsed,
                           static_cast<double>(longest_decode) * step_times_.StepTime(decodes),
                           rate_.TimeOf(flops.other));
    step_times_.Observe(decodes, longest_decode, decode_time);
    rate_.Observe(flops.other, elapsed - decode_time);
  }
  work_rates_.Observe(flops, decode_time, elapsed - decode_time);
  return decode_time;
}

}  // namespace chorale
