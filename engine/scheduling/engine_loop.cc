#include "engine/scheduling/engine_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/monotonic_clock.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

// Summing up all sessions costs more than a tick of a few.
constexpr absl::Duration kBacklogPeriod = absl::Milliseconds(100);
// A rate that was measured under other load says little about this one.
constexpr absl::Duration kMeasured = absl::Seconds(1);
// A stream that was not read for less may have a slow reader.
constexpr absl::Duration kUnread = absl::Seconds(2);
// Ticks are so many times shorter while several clients have work in the engine, or a short request
// beside a long one, and for a while after: what is asked next waits for the end of a tick.
constexpr int kSharedTicks = 4;
constexpr absl::Duration kSharedFor = absl::Milliseconds(100);
// Short summaries that the engine thread makes itself in a tick, at most.
constexpr int kMostAtOnce = 2;
// How often those that wait are looked at when nothing happens.
constexpr absl::Duration kLookAgain = absl::Milliseconds(250);

// Between two looks at a device that has nothing to do.
constexpr absl::Duration kDeviceCheckPeriod = absl::Seconds(1);

// Ids of the cache's jobs and of sessions come from different counters.
uint64_t JobFlow(uint64_t id) { return id | (uint64_t{1} << 63); }

}  // namespace

absl::Status DrainingError() {
  return absl::UnavailableError("the server is draining; retry on another server");
}

EngineLoop::EngineLoop(const EngineOptions& options, Backend* backend, MetricsSink* metrics,
                       std::shared_ptr<Inbox> inbox, RequestRead request_read, FileAccess files)
    : options_(options),
      backend_(backend),
      metrics_(metrics),
      inbox_(std::move(inbox)),
      request_read_(std::move(request_read)),
      files_(std::move(files)),
      cache_(backend, metrics),
      buffers_(backend),
      admission_({.pool_bytes = backend->buffer_pool_bytes(), .max_running = options.max_running}),
      decodes_in_step_(backend->tick_policy().decodes_in_step),
      places_(options.max_queued) {
  if (files_.has) cache_.UseFiles(files_.has);
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
    if (!retired_.empty()) FreeRetiredModels();
    Admit(now);
    EndUnread(now);
    CheckDrain(now);
    Tick();
    if (!busy_) CheckIdleDevice(now);
    if (!busy_ || now - backlog_published_ >= kBacklogPeriod) PublishBacklog(now);
  }
  commands_.clear();
  inbox_->Close(&commands_);
  for (Command& command : commands_) {
    std::visit([this](auto& each) { Handle(each); }, command);
  }
  commands_.clear();
  FinishAll(CutShortByShutdown());
  CheckDrain(MonotonicNow());
  ClearCache();
  FreeRetiredModels();
  PublishStats();
  PublishBacklog(MonotonicNow());
}

// ---- Commands ------------------------------------------------------------------------------

void EngineLoop::Handle(command::Submit& submit) {
  sessions_.push_back({.session = std::move(submit.session), .requested = {}});
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

void EngineLoop::Handle(command::FileRead& read) {
  if (!files_stopped_) {
    cache_.OnFileRead(read.context, std::move(read.encoder_state), MonotonicNow());
  }
}

void EngineLoop::Handle(command::FileWritten& written) {
  if (!files_stopped_) cache_.OnFileWritten();
}

void EngineLoop::Handle(command::Continue& continued) {
  if (by_id_.contains(continued.session)) continued.continuation();
}

void EngineLoop::Handle(command::PurgeDeleted& purge) {
  cache_.PurgeDeleted();
  PublishStats();
}

void EngineLoop::Handle(command::LimitPools& limit) {
  cache_.LimitPool(limit.context);
  buffers_.SetLimit(limit.buffer);
  PublishStats();
}

void EngineLoop::Handle(command::AddModel& add) {
  if (failure_.ok()) {
    *add.outcome = add.served->AddTo(backend_, *add.model);
  } else {
    *add.outcome = failure_;
  }
  add.done->Notify();
}

void EngineLoop::Handle(command::RetireModel& retire) {
  retired_.push_back(std::move(retire.model));
  cache_.PurgeDeleted();
  PublishStats();
}

void EngineLoop::FreeRetiredModels() {
  std::erase_if(retired_, [this](const std::shared_ptr<ServedModel>& model) {
    if (cache_.Uses(*model)) return false;
    backend_->RemoveModel(*model->weights);
    model->weights.reset();
    spdlog::info("the weights of the removed model '{}' were freed", model->info.name);
    return true;
  });
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
  absl::StatusOr<ContextCache::Pin> pin =
      cache_.Acquire(prepared->context, now, active->session->max_resident_bytes());
  if (!pin.ok()) {
    Finish(active, std::move(pin).status());
    return;
  }
  active->session->SetContext(*std::move(prepared), *std::move(pin));
  active->requested = active->session->Requested();
}

// ---- Endings -------------------------------------------------------------------------------

void EngineLoop::EndSessions(absl::Time now) {
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    // A session that needs no more than its context ends here, so that Admit can use its room.
    if (it->queued) it->session->CheckContext(now);
    NoteReader(&*it, now);
    std::optional<absl::Status> verdict = Verdict(*it, now);
    it = verdict.has_value() ? Finish(it, *std::move(verdict)) : std::next(it);
  }
}

void EngineLoop::NoteReader(Active* active, absl::Time now) const {
  const int64_t acknowledged = active->session->acknowledged();
  if (!active->session->WaitsForReader()) {
    active->unread_since = absl::InfiniteFuture();
  } else if (active->unread_since == absl::InfiniteFuture() ||
             acknowledged != active->acknowledged) {
    active->unread_since = now;
  }
  active->acknowledged = acknowledged;
}

std::optional<absl::Status> EngineLoop::Verdict(const Active& active, absl::Time now) {
  const Session& session = *active.session;
  if (session.cancelled()) return absl::CancelledError("the call was cancelled");
  if (session.state() == Session::State::kComplete) return absl::OkStatus();
  if (now >= session.deadline()) {
    return absl::DeadlineExceededError("the deadline passed before the call was complete");
  }
  if (now - active.unread_since >= options_.max_unread) {
    metrics_->UnreadStream();
    return ExhaustedRetryAfter(
        absl::StrCat("the client read nothing of the stream for ",
                     absl::FormatDuration(options_.max_unread), ", the limit (--unread_timeout)"),
        options_.retry_delay);
  }
  if (!active.queued) return std::nullopt;
  if (session.displaced()) {
    metrics_->Rejected("queue_full");
    return ExhaustedRetryAfter(
        absl::StrCat("the queue of ", options_.max_queued,
                     " requests is full (--max_queued), and a client with fewer queued requests "
                     "took the slot of this request; retry later"),
        options_.retry_delay);
  }
  if (session.pin() && !session.pin().status().ok()) return session.pin().status();
  if (session.TimeQueued(now) >= options_.max_queue_wait) {
    metrics_->Rejected("queue_timeout");
    const char* const what = session.state() == Session::State::kLookingUp
                                 ? "the context was not loaded within "
                                 : "no memory became available within ";
    return ExhaustedRetryAfter(absl::StrCat(what, absl::FormatDuration(options_.max_queue_wait),
                                            " (--queue_wait); retry later"),
                               options_.retry_delay);
  }
  return std::nullopt;
}

EngineLoop::ActiveList::iterator EngineLoop::Finish(ActiveList::iterator active,
                                                    absl::Status status) {
  if (active->queued) {
    LeaveQueue(&*active);
  } else {
    --running_;
  }
  const std::unique_ptr<Session> session = std::move(active->session);
  by_id_.erase(session->id());
  admission_.Remove(session->id());
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
  spdlog::critical("the backend failed, and the server can no longer serve calls: {}",
                   status.ToString());
  failure_ = absl::UnavailableError(absl::StrCat("the device failed: ", status.message()));
  {
    MutexLock lock(&mutex_);
    health_ = failure_;
  }
  FinishAll(failure_);
  ClearCache();
  PublishStats();
}

void EngineLoop::CheckIdleDevice(absl::Time now) {
  if (!failure_.ok() || stopping_ || now < next_device_check_) return;
  next_device_check_ = now + kDeviceCheckPeriod;
  if (absl::Status status = backend_->CheckDevice(); !status.ok()) Fail(status);
}

// No thread reads or writes the backend's memory any more when it is released.
void EngineLoop::ClearCache() {
  if (files_.stop) files_.stop();
  files_stopped_ = true;
  cache_.StopFiles();
  cache_.Clear();
}

void EngineLoop::CheckDrain(absl::Time now) {
  if (drains_.empty()) return;
  const bool late = std::any_of(drains_.begin(), drains_.end(),
                                [&](const DrainRequest& drain) { return now >= drain.deadline; });
  if (late) FinishAll(CutShortByShutdown());
  if (!sessions_.empty()) return;
  for (const DrainRequest& drain : drains_) drain.done->Notify();
  drains_.clear();
}

absl::Time EngineLoop::NextEvent(absl::Time now) const {
  absl::Time next = cache_.NextPlacing();
  if (failure_.ok()) next = std::min(next, next_device_check_);
  for (const Active& active : sessions_) {
    const Session& session = *active.session;
    next = std::min(next, session.deadline());
    if (active.queued) {
      next = std::min(next, now + (options_.max_queue_wait - session.TimeQueued(now)));
    }
    next = std::min(next, active.unread_since + options_.max_unread);
  }
  if (admission_.waiting() > 0) next = std::min(next, now + kLookAgain);
  for (const DrainRequest& drain : drains_) next = std::min(next, drain.deadline);
  return next;
}

// ---- Admission -----------------------------------------------------------------------------

bool EngineLoop::TryEnterQueue(const Session& session, std::shared_ptr<CallControl> control) {
  return places_.TryEnter(session.id(), session.share(), std::move(control));
}

void EngineLoop::LeaveQueue(Active* active) {
  active->queued = false;
  if (active->waits && !active->wait_judged) --unjudged_;
  places_.Leave(active->session->id());
}

void EngineLoop::Admit(absl::Time now) {
  room_given_back_ = false;
  cache_.PlaceWaiting(now);
  for (auto& context : cache_.TakeReads()) request_read_(std::move(context));
  for (auto& task : cache_.TakeFileTasks(now)) files_.run(std::move(task));
  for (Active& active : sessions_) {
    Session* session = active.session.get();
    if (active.queued) session->CheckContext(now);
    if (active.waits || session->state() != Session::State::kWaitingForAdmission) continue;
    const std::vector<int64_t> ranges = session->Plan().ranges();
    admission_.Wait(session->id(), session->share(), active.requested.flops,
                    std::accumulate(ranges.begin(), ranges.end(), int64_t{0}), now);
    active.waits = true;
    ++unjudged_;
  }
  admission_.StartWhatFits(now, [&](uint64_t id) { return Start(id, now); });
  if (admission_.waiting() == 0) load_began_ = absl::InfiniteFuture();
  load_began_ = std::min(load_began_, now);
  RefuseHopeless(now);
  PublishStats();
}

bool EngineLoop::Start(uint64_t id, absl::Time now) {
  Active& active = *by_id_.at(id);
  const std::vector<int64_t> ranges = active.session->Plan().ranges();
  std::vector<BufferPool::Lease> leases = buffers_.TryLease(ranges);
  if (leases.size() < ranges.size()) return false;
  active.session->Admit(std::move(leases), now);
  active.is_short = active.requested.flops < rate_.Budget(options_.target_tick);
  active.lane = active.session->share().client;
  if (active.is_short) active.lane += " (short)";
  LeaveQueue(&active);
  ++running_;
  return true;
}

void EngineLoop::RefuseHopeless(absl::Time now) {
  if (unjudged_ == 0 || now - load_began_ < kMeasured) return;
  std::vector<ActiveList::iterator> waiting;  // in the order in which a client's are served
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->queued && it->waits) waiting.push_back(it);
  }
  std::stable_sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
    return a->requested.flops < b->requested.flops;
  });
  std::map<std::string, FlopsOfTick> ahead;  // by client
  for (const ActiveList::iterator it : waiting) {
    Active& active = *it;
    FlopsOfTick& flops = ahead[active.session->share().client];
    const absl::Duration wait =
        work_rates_.TimeOf(flops) / admission_.PartOf(active.session->share().client);
    const absl::Duration limit = std::min(options_.max_queue_wait - active.session->TimeQueued(now),
                                          active.session->deadline() - now);
    if (!std::exchange(active.wait_judged, true)) {
      --unjudged_;
      if (wait > limit) {
        metrics_->Rejected("backlog");
        Finish(it,
               ExhaustedRetryAfter(
                   absl::StrCat("the queued work of this client ahead of this request takes about ",
                                absl::FormatDuration(absl::Ceil(wait, absl::Seconds(1))),
                                ", longer than the request may wait; retry later"),
                   std::max(options_.retry_delay, wait - limit)));
        continue;
      }
    }
    (active.requested.kind == WorkKind::kDecode ? flops.decode : flops.other) +=
        active.requested.flops;
  }
}

void EngineLoop::EndUnread(absl::Time now) {
  const std::string* const starved = admission_.StarvedClient(now);
  if (starved == nullptr) return;
  auto longest = sessions_.end();
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->queued || now - it->unread_since < kUnread) continue;
    if (longest != sessions_.end() && it->unread_since >= longest->unread_since) continue;
    const std::string& client = it->session->share().client;
    if (client != *starved && admission_.OverShare(client)) longest = it;
  }
  if (longest == sessions_.end()) return;
  metrics_->UnreadStream();
  Finish(longest, ExhaustedRetryAfter("the client did not read the stream, holds more than its "
                                      "share of memory, and another client waits for this memory",
                                      options_.retry_delay));
}

// ---- Ticks ---------------------------------------------------------------------------------

void EngineLoop::GatherTasks(absl::Time now) {
  candidates_.clear();
  tasks_.clear();
  for (const uint64_t id : cache_.TakeEndedJobs()) {
    scheduler_.Remove(JobFlow(id));
    share_of_job_.erase(id);
  }
  for (const ContextCache::Job& job : cache_.jobs()) {
    const ClientShare& share = ShareOfJob(job);
    AddTask({job.work, job.work->steps_at_this_cost()}, JobFlow(job.id), share.client,
            {.share = &share, .job = job.id, .context = job.context});
  }
  const std::string* client = nullptr;
  for (Active& active : sessions_) {
    if (!active.queued && !active.session->WaitsForReader()) {
      if (client != nullptr && *client != active.lane) shared_at_ = now;
      client = &active.lane;
    }
    slices_.clear();
    active.session->AppendSlices(&slices_);
    for (const Slice& slice : slices_) {
      AddTask(slice, active.session->id(), active.lane,
              {.share = &active.session->share(),
               .active = &active,
               .context = &active.session->context()});
    }
  }
  // Where decodes run in step, ticks are short as they are, and their ends cost more.
  shared_ = !decodes_in_step_ && now - shared_at_ < kSharedFor;
  summaries_at_once_ = 0;
  HalveWeightsOfTwoLanes();
}

void EngineLoop::AddTask(const Slice& slice, uint64_t flow, absl::string_view lane, Task task) {
  task.work = slice.work;
  tasks_.push_back(task);
  candidates_.push_back(
      {flow, slice.work->next_step_flops(), slice.max_steps, lane, task.share->weight});
}

// To the scheduler the short requests of a client are a client of their own, which waits only for
// its fair part of the long ones' work. While a client has both, each has half of its weight.
void EngineLoop::HalveWeightsOfTwoLanes() {
  absl::flat_hash_map<absl::string_view, std::array<bool, 2>> lanes;  // of a client: long, short
  for (const Task& task : tasks_) {
    lanes[task.share->client][task.active != nullptr && task.active->is_short ? 1 : 0] = true;
  }
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const auto& [has_long, has_short] = lanes[tasks_[i].share->client];
    if (has_long && has_short) candidates_[i].weight /= 2;
  }
}

const ClientShare& EngineLoop::ShareOfJob(const ContextCache::Job& job) {
  const auto [share, is_new] = share_of_job_.try_emplace(job.id);
  if (!is_new) return share->second;
  for (const Active& active : sessions_) {
    if (active.session->state() != Session::State::kWaitingForContext) continue;
    if (&active.session->context() != job.context) continue;
    share->second = active.session->share();
    break;
  }
  return share->second;
}

bool EngineLoop::MaySummariseAtOnce() { return shared_ && summaries_at_once_++ < kMostAtOnce; }

void EngineLoop::Tick() {
  busy_ = false;
  const absl::Time now = MonotonicNow();
  if (failure_.ok()) GatherTasks(now);
  if (!failure_.ok() || tasks_.empty()) {
    tick_began_ = kIdle;
    return;
  }
  busy_ = true;
  std::vector<Scheduler::Pick> picks = scheduler_.PickSlices(candidates_, TickLimits());
  if (decodes_in_step_) EqualizeDecodeSteps(&picks);
  slices_.clear();
  for (const Scheduler::Pick& pick : picks) {
    Task& task = tasks_[pick.candidate];
    task.picked_flops = task.work->next_flops(pick.steps);
    slices_.push_back({task.work, pick.steps});
  }
  const absl::Time start = MonotonicNow();
  tick_began_ = absl::ToUnixNanos(start);
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
  const absl::Duration tick = options_.target_tick / (shared_ ? kSharedTicks : 1);
  Scheduler::Limits limits = {
      .max_slices = options_.max_slices_per_tick,
      .budget = rate_.Budget(tick),
      .tick = tick,
      .shorten = !decodes_in_step_,
      .parallel = decodes_in_step_ ? options_.max_slices_per_tick : backend_->info().threads};
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
    if (tasks_[pick.candidate].is_decode()) {
      ++decodes;
    } else {
      other_flops += candidates_[pick.candidate].step_flops * static_cast<double>(pick.steps);
    }
  }
  if (decodes == 0) return;
  const int64_t steps =
      step_times_.StepsWithin(decodes, options_.target_tick - rate_.TimeOf(other_flops));
  for (Scheduler::Pick& pick : *picks) {
    if (tasks_[pick.candidate].is_decode()) {
      pick.steps = std::min(steps, candidates_[pick.candidate].max_steps);
    }
  }
}

void EngineLoop::ChargeFlows(absl::Span<const Scheduler::Pick> picks, absl::Duration elapsed) {
  FlopsOfTick flops;
  int64_t decodes = 0;
  int64_t decode_steps = 0;
  int64_t longest_decode = 0;
  for (const Scheduler::Pick& pick : picks) {
    const Task& task = tasks_[pick.candidate];
    if (!task.is_decode()) {
      flops.other += task.picked_flops;
      continue;
    }
    flops.decode += task.picked_flops;
    ++decodes;
    decode_steps += pick.steps;
    longest_decode = std::max(longest_decode, pick.steps);
  }
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
  if (decode_steps > 0) {
    const double share = flops.decode / all_flops;
    metrics_->StepTimes(elapsed * share / static_cast<double>(decode_steps), decode_steps);
  }
  for (const Scheduler::Pick& pick : picks) {
    const Task& task = tasks_[pick.candidate];
    const absl::Duration time = task.is_decode()
                                    ? decode_time * (task.picked_flops / flops.decode)
                                    : (elapsed - decode_time) * (task.picked_flops / flops.other);
    scheduler_.Charge(candidates_[pick.candidate].flow, task.picked_flops, time);
    ReportWork(task, time);
  }
}

void EngineLoop::ReportWork(const Task& task, absl::Duration time) {
  const double flops = task.picked_flops;
  const WorkKind kind = task.work->kind();
  if (task.active == nullptr) {
    cache_.Charge(task.job, flops);
  } else if (kind == task.active->requested.kind) {
    task.active->flops_done += flops;
  }
  if (kind != WorkKind::kCopy) metrics_->Flops(kind, flops);
  metrics_->EngineTime(task.context->record.tenant, time);
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
  MutexLock lock(&mutex_);
  stats_.contexts = cache_.counts();
  stats_.resident_contexts = cache_.resident_contexts();
  stats_.resident_bytes = cache_.bytes_in_use();
  stats_.encode_bytes = cache_.encode_bytes_in_use();
  stats_.loading_bytes = cache_.EncodingBytes();
  stats_.buffer_bytes = buffers_.bytes_in_use();
  stats_.running = running_;
  stats_.queued = places_.taken();
  stats_.waiting_clients = places_.clients();
  stats_.largest_client_share = admission_.largest_usage();
}

void EngineLoop::PublishBacklog(absl::Time now) {
  backlog_published_ = now;
  FlopsOfTick flops;
  double values = 0;
  flops.other = cache_.EncodeFlopsLeft();
  for (const Active& active : sessions_) {
    const double left = active.Left();
    values += left * static_cast<double>(active.requested.values);
    (active.requested.kind == WorkKind::kDecode ? flops.decode : flops.other) +=
        left * active.requested.flops;
  }
  MutexLock lock(&mutex_);
  stats_.backlog_time = work_rates_.TimeOf(flops);
  stats_.backlog_values = static_cast<int64_t>(std::ceil(values));
}

absl::Duration EngineLoop::tick_age() const {
  const int64_t began = tick_began_;
  return began == kIdle ? absl::ZeroDuration() : MonotonicNow() - absl::FromUnixNanos(began);
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
