#include "engine/scheduling/engine_loop.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/error_details.h"
#include "base/fault.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

// The period of PublishBacklog, whose sum over all sessions takes longer than a tick of a few
// sessions.
constexpr absl::Duration kBacklogPeriod = absl::Milliseconds(100);
// The time for which ticks stay short after several clients had work; see TickPlan::Pick.
constexpr absl::Duration kSharedFor = absl::Milliseconds(100);
// The maximum number of summaries per tick that the engine thread computes.
constexpr int kMostAtOnce = 2;
// The period in which waiting requests are checked if nothing else happens.
constexpr absl::Duration kLookAgain = absl::Milliseconds(250);
// The period in which an idle device is checked.
constexpr absl::Duration kDeviceCheckPeriod = absl::Seconds(1);

// Returns the flow of a job. The bit distinguishes ids of jobs from ids of sessions, which have
// another counter.
uint64_t JobFlow(uint64_t id) { return id | (uint64_t{1} << 63); }

}  // namespace

absl::Status DrainingError() {
  return MakeError(ErrorReason::kDraining, "the server is draining; retry on another server");
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
      plan_(options, backend),
      decodes_in_step_(backend->tick_policy().decodes_in_step),
      places_(options.max_queued) {
  if (files_.has) cache_.UseFiles(files_.has);
}

EngineLoop::~EngineLoop() = default;

void EngineLoop::Run() {
  while (!stopping_) {
    commands_.clear();
    const bool more_to_do = busy_ || room_given_back_;
    inbox_->Take(more_to_do ? absl::InfinitePast() : NextEvent(options_.clock->Now()), &commands_);
    for (Command& command : commands_) {
      std::visit([this](auto& each) { Handle(each); }, command);
    }
    const absl::Time now = options_.clock->Now();
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
  CheckDrain(options_.clock->Now());
  ClearCache();
  FreeRetiredModels();
  PublishStats();
  PublishBacklog(options_.clock->Now());
}

// ---- Endings -------------------------------------------------------------------------------

void EngineLoop::EndSessions(absl::Time now) {
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    // A session for which the context is enough ends here, so that Admit can use its space.
    if (it->queued) it->session->CheckContext(now);
    if (it->queued && it->session->lost_context()) {
      it->session->ForgetContext();
      it->look_up();
    }
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
        ErrorReason::kResponsesUnread,
        absl::StrCat("the client read nothing of the stream for ",
                     absl::FormatDuration(options_.max_unread), ", the limit (--unread_timeout)"),
        options_.retry_delay);
  }
  if (!active.queued) return std::nullopt;
  if (session.displaced()) {
    metrics_->Rejected("queue_full");
    return ExhaustedRetryAfter(
        ErrorReason::kQueueFull,
        absl::StrCat("the queue of ", options_.max_queued,
                     " requests is full (--max_queued), and a client with fewer queued requests "
                     "took the slot of this request; retry later"),
        options_.retry_delay);
  }
  if (session.pin() && !session.pin().status().ok()) return session.pin().status();
  if (session.TimeQueued(now) >= options_.max_queue_wait) {
    metrics_->Rejected("queue_timeout");
    const std::string wait =
        absl::StrCat(absl::FormatDuration(options_.max_queue_wait), " (--queue_wait); retry later");
    if (session.state() == Session::State::kLookingUp) {
      return ExhaustedRetryAfter(ErrorReason::kQueueTimeout,
                                 absl::StrCat("the context was not loaded within ", wait),
                                 options_.retry_delay);
    }
    return ExhaustedRetryAfter(ErrorReason::kMemoryFull,
                               absl::StrCat("no memory became available within ", wait),
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
  plan_.Remove(session->id());
  const auto next = sessions_.erase(active);
  session->ReleaseResources();
  room_given_back_ = true;
  PublishStats();
  session->End(std::move(status), options_.clock->Now());
  return next;
}

void EngineLoop::FinishAll(const absl::Status& status) {
  while (!sessions_.empty()) Finish(sessions_.begin(), status);
}

void EngineLoop::Fail(const absl::Status& status) {
  spdlog::critical("the backend failed, and the server can no longer serve calls: {}",
                   status.ToString());
  failure_ =
      MakeError(ErrorReason::kDeviceFailed, absl::StrCat("the device failed: ", status.message()));
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

// Stops the files first, so that no thread accesses the backend's memory when it is released.
void EngineLoop::ClearCache() {
  if (files_.stop) files_.stop();
  files_stopped_ = true;
  successors_.clear();
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

// ---- Ticks ---------------------------------------------------------------------------------

void EngineLoop::GatherTasks(absl::Time now) {
  plan_.Clear();
  owners_.clear();
  for (const uint64_t id : cache_.TakeEndedJobs()) {
    plan_.Remove(JobFlow(id));
    share_of_job_.erase(id);
  }
  for (const ContextCache::Job& job : cache_.jobs()) {
    const ClientShare& share = ShareOfJob(job);
    plan_.Add({.slice = {job.work, job.work->steps_at_this_cost()},
               .flow = JobFlow(job.id),
               .lane = share.client,
               .share = &share});
    owners_.push_back({.job = job.id, .kind = job.work->kind(), .context = job.context});
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
      plan_.Add({.slice = slice,
                 .flow = active.session->id(),
                 .lane = active.lane,
                 .share = &active.session->share(),
                 .is_short = active.is_short});
      owners_.push_back(
          {.active = &active, .kind = slice.work->kind(), .context = &active.session->context()});
    }
  }
  // If decodes run in step, ticks are already short, and the end of a tick costs more.
  shared_ = !decodes_in_step_ && now - shared_at_ < kSharedFor;
  summaries_at_once_ = 0;
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
  const absl::Time now = options_.clock->Now();
  if (failure_.ok()) GatherTasks(now);
  if (!failure_.ok() || plan_.empty()) {
    tick_began_ = kIdle;
    return;
  }
  busy_ = true;
  const absl::Span<const Slice> slices = plan_.Pick(shared_);
  const absl::Time start = options_.clock->Now();
  tick_began_ = absl::ToUnixNanos(start);
  const absl::Status status =
      FaultAt(FaultPlace::kDevice) ? absl::UnknownError("fault") : backend_->Advance(slices);
  const absl::Duration elapsed = options_.clock->Now() - start;
  if (!status.ok()) {
    Fail(status);
    return;
  }
  metrics_->TickTime(elapsed, static_cast<int64_t>(slices.size()));
  plan_.Charge(elapsed, metrics_, [this](size_t task, double flops, absl::Duration time) {
    ReportWork(owners_[task], flops, time);
  });
  CollectResults();
}

void EngineLoop::ReportWork(const Owner& owner, double flops, absl::Duration time) {
  if (owner.active == nullptr) {
    cache_.Charge(owner.job, flops);
  } else if (owner.kind == owner.active->requested.kind) {
    owner.active->flops_done += flops;
  }
  if (owner.kind == WorkKind::kDecode) owner.context->model->decode_rate.Observe(flops, time);
  if (owner.kind != WorkKind::kCopy) metrics_->Flops(owner.kind, flops);
  metrics_->EngineTime(owner.context->record.tenant, time);
}

void EngineLoop::CollectResults() {
  const absl::Time now = options_.clock->Now();
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
  stats_.backlog_time = plan_.TimeOf(flops);
  stats_.backlog_values = static_cast<int64_t>(std::ceil(values));
}

absl::Duration EngineLoop::tick_age() const {
  const int64_t began = tick_began_;
  return began == kIdle ? absl::ZeroDuration() : options_.clock->Now() - absl::FromUnixNanos(began);
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
