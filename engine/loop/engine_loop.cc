#include "engine/loop/engine_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/monotonic_clock.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

// Ids of the cache's jobs and of sessions come from different counters.
uint64_t JobFlow(uint64_t id) { return id | (uint64_t{1} << 63); }

}  // namespace

absl::Status DrainingError() {
  return absl::UnavailableError("the server is draining; try again elsewhere");
}

EngineLoop::EngineLoop(const EngineOptions& options, Backend* backend, MetricsSink* metrics,
                       std::shared_ptr<Inbox> inbox, RequestRead request_read)
    : options_(options),
      backend_(backend),
      metrics_(metrics),
      inbox_(std::move(inbox)),
      request_read_(std::move(request_read)),
      cache_(backend, metrics),
      buffers_(backend, metrics),
      decodes_in_step_(backend->tick_policy().decodes_in_step) {
  metrics_->Sessions(0, 0);
}

EngineLoop::~EngineLoop() = default;

void EngineLoop::Run() {
  while (!stopping_) {
    commands_.clear();
    const bool more_to_do = busy_ || room_given_back_;
    inbox_->Take(more_to_do ? absl::InfinitePast() : NextEvent(MonotonicNow()), &commands_);
    for (Command& command : commands_) {
      std::visit([this](auto& each) { Handle(each); }, command);
    }
    const absl::Time now = MonotonicNow();
    EndSessions(now);
    Admit(now);
    CheckDrain(now);
    Tick();
  }
  commands_.clear();
  inbox_->Close(&commands_);
  for (Command& command : commands_) {
    std::visit([this](auto& each) { Handle(each); }, command);
  }
  commands_.clear();
  FinishAll(absl::CancelledError("the engine is shutting down"));
  CheckDrain(MonotonicNow());
  cache_.Clear();
  PublishStats();
}

// ---- Commands ------------------------------------------------------------------------------

void EngineLoop::Handle(command::Submit& submit) {
  sessions_.push_back({std::move(submit.session)});
  const auto active = std::prev(sessions_.end());
  by_id_[active->session->id()] = active;
  if (!failure_.ok()) {
    metrics_->Rejected("backend_failed");
    Finish(active, failure_);
  } else if (draining_) {
    metrics_->Rejected("draining");
    Finish(active, DrainingError());
  } else if (submit.prepared.has_value()) {
    AttachContext(active, *std::move(submit.prepared));
  }
}

void EngineLoop::Handle(command::Refuse& refuse) {
  refuse.session->End(std::move(refuse.status), MonotonicNow());
}

void EngineLoop::Handle(command::LookedUp& looked_up) {
  const auto found = by_id_.find(looked_up.session);
  if (found != by_id_.end()) {
    AttachContext(found->second, std::move(looked_up.prepared));
  } else if (looked_up.context != nullptr && looked_up.context->data != nullptr && failure_.ok() &&
             !stopping_) {
    // No request waits any more, but the data makes the next try faster.
    cache_.Acquire(looked_up.context, MonotonicNow()).IgnoreError();
  }
}

void EngineLoop::Handle(command::DataRead& read) {
  if (failure_.ok() && !stopping_) cache_.OnData(read.context, std::move(read.data));
}

void EngineLoop::Handle(command::Continue& continued) {
  if (by_id_.contains(continued.session)) continued.continuation();
}

void EngineLoop::Handle(command::PurgeDeleted& purge) {
  cache_.PurgeDeleted();
  PublishStats();
}

void EngineLoop::Handle(command::Drain& drain) {
  draining_ = true;
  drains_.push_back({drain.deadline, drain.done});
}

void EngineLoop::Handle(command::Stop& stop) { stopping_ = true; }

void EngineLoop::AttachContext(ActiveList::iterator active,
                               absl::StatusOr<PreparedRequest> prepared) {
  if (!prepared.ok()) {
    Finish(active, std::move(prepared).status());
    return;
  }
  const absl::Time now = MonotonicNow();
  absl::StatusOr<ContextCache::Pin> pin = cache_.Acquire(prepared->context, now);
  if (!pin.ok()) {
    Finish(active, std::move(pin).status());
    return;
  }
  active->session->SetContext(*std::move(prepared), *std::move(pin));
}

// ---- Endings -------------------------------------------------------------------------------

void EngineLoop::EndSessions(absl::Time now) {
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    // A session that needs no more than its context ends here, so that Admit can use its room.
    if (it->queued) it->session->CheckContext(now);
    std::optional<absl::Status> verdict = Verdict(*it, now);
    it = verdict.has_value() ? Finish(it, *std::move(verdict)) : std::next(it);
  }
}

std::optional<absl::Status> EngineLoop::Verdict(const Active& active, absl::Time now) {
  const Session& session = *active.session;
  if (session.cancelled()) return absl::CancelledError("the call was cancelled");
  if (session.state() == Session::State::kComplete) return absl::OkStatus();
  if (now >= session.deadline()) {
    return absl::DeadlineExceededError("the deadline passed before the call was done");
  }
  if (!active.queued) return std::nullopt;
  if (session.pin() && !session.pin().status().ok()) return session.pin().status();
  if (session.TimeQueued(now) >= options_.max_queue_wait) {
    metrics_->Rejected("queue_timeout");
    const char* const what = session.state() == Session::State::kLookingUp
                                 ? "the context could not be looked up within "
                                 : "no memory became free within ";
    return ExhaustedRetryAfter(
        absl::StrCat(what, absl::FormatDuration(options_.max_queue_wait), "; try again later"),
        options_.retry_delay);
  }
  return std::nullopt;
}

EngineLoop::ActiveList::iterator EngineLoop::Finish(ActiveList::iterator active,
                                                    absl::Status status) {
  const std::unique_ptr<Session> session = std::move(active->session);
  if (active->queued) {
    LeaveQueue(&*active);
  } else {
    --running_;
  }
  by_id_.erase(session->id());
  scheduler_.Remove(session->id());
  const auto next = sessions_.erase(active);
  session->ReleaseResources();
  room_given_back_ = true;
  PublishStats();
  session->End(std::move(status), MonotonicNow());
  return next;
}

void EngineLoop::FinishAll(const absl::Status& status) {
  while (!sessions_.empty()) Finish(sessions_.begin(), status);
}

void EngineLoop::Fail(const absl::Status& status) {
  spdlog::critical("the backend failed, and nothing can be served any more: {}", status.ToString());
  failure_ = absl::UnavailableError(absl::StrCat("the device failed: ", status.message()));
  {
    MutexLock lock(&mutex_);
    health_ = failure_;
  }
  FinishAll(failure_);
  cache_.Clear();
  PublishStats();
}

void EngineLoop::CheckDrain(absl::Time now) {
  if (drains_.empty()) return;
  const bool late = std::any_of(drains_.begin(), drains_.end(),
                                [&](const DrainRequest& drain) { return now >= drain.deadline; });
  if (late) FinishAll(DrainingError());
  if (!sessions_.empty()) return;
  for (const DrainRequest& drain : drains_) drain.done->Notify();
  drains_.clear();
}

absl::Time EngineLoop::NextEvent(absl::Time now) const {
  absl::Time next = absl::InfiniteFuture();
  for (const Active& active : sessions_) {
    const Session& session = *active.session;
    next = std::min(next, session.deadline());
    if (active.queued) {
      next = std::min(next, now + (options_.max_queue_wait - session.TimeQueued(now)));
    }
  }
  for (const DrainRequest& drain : drains_) next = std::min(next, drain.deadline);
  return next;
}

// ---- Admission -----------------------------------------------------------------------------

bool EngineLoop::TryEnterQueue() {
  int64_t queued = queued_.load();
  do {
    if (queued >= options_.max_queued) return false;
  } while (!queued_.compare_exchange_weak(queued, queued + 1));
  return true;
}

void EngineLoop::LeaveQueue(Active* active) {
  active->queued = false;
  --queued_;
}

// In order of arrival. A session that waits for its context holds back no other. One that waits
// for buffer memory holds back later ones that need buffer memory, so that small requests cannot
// starve a large one.
void EngineLoop::Admit(absl::Time now) {
  room_given_back_ = false;
  cache_.PlaceWaiting(now);
  for (auto& context : cache_.TakeReads()) request_read_(std::move(context));
  bool buffers_taken = false;
  for (Active& active : sessions_) {
    Session* session = active.session.get();
    if (active.queued) session->CheckContext(now);
    if (session->state() != Session::State::kWaitingForAdmission) continue;
    if (running_ >= options_.max_running) continue;
    const std::vector<int64_t> ranges = session->Plan().ranges();
    std::vector<BufferPool::Lease> leases;
    if (!ranges.empty()) {
      if (buffers_taken) continue;
      leases = buffers_.TryLease(ranges);
      buffers_taken = leases.empty();
      if (leases.empty()) continue;
    }
    session->Admit(std::move(leases), now);
    LeaveQueue(&active);
    ++running_;
  }
  PublishStats();
}

// ---- Ticks ---------------------------------------------------------------------------------

void EngineLoop::GatherTasks() {
  tasks_.clear();
  for (const uint64_t id : cache_.TakeEndedJobs()) scheduler_.Remove(JobFlow(id));
  for (const ContextCache::Job& job : cache_.jobs()) {
    tasks_.push_back({{job.work, job.work->steps_at_this_cost()}, JobFlow(job.id)});
  }
  for (const Active& active : sessions_) {
    runnables_.clear();
    active.session->AppendRunnable(&runnables_);
    for (const Runnable& runnable : runnables_) {
      tasks_.push_back({runnable, active.session->id()});
    }
  }
  candidates_.clear();
  for (Task& task : tasks_) {
    task.step_flops = task.runnable.work->next_step_flops();
    candidates_.push_back({task.flow, task.step_flops, task.runnable.max_steps});
  }
}

void EngineLoop::Tick() {
  busy_ = false;
  if (!failure_.ok()) return;
  GatherTasks();
  if (tasks_.empty()) return;
  busy_ = true;
  std::vector<Scheduler::Pick> picks = scheduler_.PickSlices(candidates_, TickLimits());
  if (decodes_in_step_) EqualizeDecodeSteps(&picks);
  slices_.clear();
  for (const Scheduler::Pick& pick : picks) {
    slices_.push_back({tasks_[pick.candidate].runnable.work, pick.steps});
  }
  const absl::Time start = MonotonicNow();
  const absl::Status status = backend_->Advance(slices_);
  const absl::Duration elapsed = MonotonicNow() - start;
  if (!status.ok()) {
    Fail(status);
    return;
  }
  metrics_->TickTime(elapsed, static_cast<int64_t>(slices_.size()));
  ChargeFlows(picks, elapsed);
  CollectResults();
}

Scheduler::Limits EngineLoop::TickLimits() const {
  Scheduler::Limits limits = {.max_slices = options_.max_slices_per_tick,
                              .budget = rate_.Budget(options_.target_tick)};
  // Where slices run in parallel, one long slice would leave threads idle at the end of the tick.
  if (!decodes_in_step_) {
    limits.longest = 2 * limits.budget / static_cast<double>(limits.max_slices);
  }
  return limits;
}

// All decodes get the number of steps that fit into the time that other slices leave of the tick.
void EngineLoop::EqualizeDecodeSteps(std::vector<Scheduler::Pick>* picks) const {
  double other_flops = 0;
  int64_t decodes = 0;
  for (const Scheduler::Pick& pick : *picks) {
    const Task& task = tasks_[pick.candidate];
    if (task.runnable.decode != nullptr) {
      ++decodes;
    } else {
      other_flops += task.step_flops * static_cast<double>(pick.steps);
    }
  }
  if (decodes == 0) return;
  const int64_t steps =
      step_times_.StepsWithin(decodes, options_.target_tick - rate_.TimeOf(other_flops));
  for (Scheduler::Pick& pick : *picks) {
    const Task& task = tasks_[pick.candidate];
    if (task.runnable.decode != nullptr) pick.steps = std::min(steps, task.runnable.max_steps);
  }
}

// Charges every flow for the work it got, and updates the estimate of the backend's speed.
void EngineLoop::ChargeFlows(absl::Span<const Scheduler::Pick> picks, absl::Duration elapsed) {
  double decode_flops = 0;
  double other_flops = 0;
  int64_t decodes = 0;
  int64_t decode_steps = 0;
  int64_t longest_decode = 0;
  for (const Scheduler::Pick& pick : picks) {
    const Task& task = tasks_[pick.candidate];
    const double flops = task.step_flops * static_cast<double>(pick.steps);
    scheduler_.Charge(task.flow, flops);
    if (task.runnable.decode == nullptr) {
      other_flops += flops;
      continue;
    }
    decode_flops += flops;
    ++decodes;
    decode_steps += pick.steps;
    longest_decode = std::max(longest_decode, pick.steps);
  }
  if (!decodes_in_step_ || decodes == 0) {
    rate_.Observe(decode_flops + other_flops, elapsed);
  } else {
    const absl::Duration of_decodes =
        other_flops == 0
            ? elapsed
            : SplitElapsed(elapsed,
                           static_cast<double>(longest_decode) * step_times_.StepTime(decodes),
                           rate_.TimeOf(other_flops));
    step_times_.Observe(decodes, longest_decode, of_decodes);
    rate_.Observe(other_flops, elapsed - of_decodes);
  }
  if (decode_steps > 0) {
    const double share = decode_flops / (decode_flops + other_flops);
    metrics_->StepTimes(elapsed * share / static_cast<double>(decode_steps), decode_steps);
  }
}

void EngineLoop::CollectResults() {
  const absl::Time now = MonotonicNow();
  cache_.CollectJobs(now);
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    it->session->Collect(now);
    const bool complete = it->session->state() == Session::State::kComplete;
    it = complete ? Finish(it, absl::OkStatus()) : std::next(it);
  }
}

// ---- Statistics ----------------------------------------------------------------------------

void EngineLoop::PublishStats() {
  EngineStats now;
  now.resident_contexts = cache_.resident_contexts();
  now.resident_bytes = cache_.bytes_in_use();
  now.buffer_bytes = buffers_.bytes_in_use();
  now.running = running_;
  now.queued = queued_;
  bool changed = false;
  {
    MutexLock lock(&mutex_);
    changed = stats_.running != now.running || stats_.queued != now.queued;
    stats_ = now;
  }
  if (changed) metrics_->Sessions(now.running, now.queued);
}

EngineStats EngineLoop::stats() const {
  MutexLock lock(&mutex_);
  return stats_;
}

absl::Status EngineLoop::health() const {
  MutexLock lock(&mutex_);
  return health_;
}

}  // namespace chorale
